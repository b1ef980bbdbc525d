"""The tool `edit`: exact passages of a text file replaced, all of them or none, and every other byte as it was."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.edits.apply import Replacement, Revision, revise
from a2a_bridge.hosts.local.edits.diff import unified
from a2a_bridge.hosts.local.edits.find import crlf
from a2a_bridge.hosts.local.files.atomic_write import replace
from a2a_bridge.hosts.local.files.encoding import UTF8, Encoding
from a2a_bridge.hosts.local.files.file_type import type_name
from a2a_bridge.hosts.local.files.lock import exclusive
from a2a_bridge.hosts.local.files.path_text import path_and_target, quote_name
from a2a_bridge.hosts.local.files.text_codec import MAX_BYTES, decode_text, encode_text, encoding_for
from a2a_bridge.hosts.local.workspace import Stopped, Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text

_PIECE_BYTES = 1024 * 1024
_CHANGED = "changed by someone else while it was edited"

_SURROGATES = re.compile("[\ud800-\udfff]")


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `edit`."""

    path: Annotated[str, msgspec.Meta(description="File; relative to the host's directory, ~ expands.")]
    edits: Annotated[list[Replacement], msgspec.Meta(min_length=1, description="Made in order, all or none.")]


class Plan(NamedTuple):
    """What an edit would make of a file: its bytes and text as they were, and as they would be."""

    data: bytes
    encoding: Encoding
    before: str
    revision: Revision


async def _edit(arguments: Edit, workspace: Workspace) -> Result:
    path = workspace.path(arguments.path)
    return text(await workspace.in_thread(lambda stopped: _edited(path, arguments.edits, stopped)))


def _edited(path: Path, edits: list[Replacement], stopped: Stopped) -> str:
    name = quote_name(str(path))
    try:
        with exclusive(path) as status_before, _opened(path, status_before) as file:
            status = os.fstat(file.fileno())
            with _refusals(name):
                data, encoding, before, revision = _planned(file, status, edits)
                content = encode_text(revision.text, encoding)

            def check() -> None:
                _expect_active(name, stopped)
                if not _same(path, file, status, data):
                    raise ToolError(f"{name}: {_CHANGED}; nothing was written; read it again")

            _expect_active(name, stopped)
            replace(path, content, status, check)
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror or error}; nothing was written") from None
    return _answer(name, before, revision, encoding)


def _planned(file: BinaryIO, status: os.stat_result, edits: list[Replacement]) -> Plan:
    data = _read(file, status)
    encoding, before = decode_text(data)
    revision = revise(before, edits)
    encoding = encoding_for([edit.new for edit in edits], encoding, lambda: data)
    return Plan(data, encoding, before, revision)


async def _preview(arguments: Edit, workspace: Workspace) -> str:
    path = workspace.path(arguments.path)
    return await workspace.in_thread(lambda _: _changes(path, arguments.edits))


def _changes(path: Path, edits: list[Replacement]) -> str:
    """The diff that the edit would answer now."""
    name = quote_name(str(path))
    try:
        status_before = path.stat() if path.exists() else None
        with _opened(path, status_before) as file, _refusals(name):
            plan = _planned(file, os.fstat(file.fileno()), edits)
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror or error}") from None
    where = path_and_target(path)
    diff = _answer(name, plan.before, plan.revision, plan.encoding).partition("\n")[2]
    return diff if where == name else f"{where}\n{diff}"


def _expect_active(name: str, stopped: Stopped) -> None:
    if stopped():
        raise ToolError(f"{name}: the call was cancelled; nothing was written")


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """What the file's text does not allow is told with the file's name."""
    try:
        yield
    except ToolError as error:
        raise ToolError(f"{name}: nothing was written; {_showable(str(error))}") from None


def _showable(words: str) -> str:
    """Surrogates are bytes of the file that do not decode; nobody is sent those."""
    return _SURROGATES.sub("\ufffd", words)


@contextmanager
def _opened(path: Path, status_before: os.stat_result | None) -> Iterator[BinaryIO]:
    """Not to wait, should the path have become a FIFO since it was looked at."""
    if status_before is None:
        raise ToolError(f"{quote_name(str(path))}: no such file; nothing was written; make a new file with write")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode):
            raise ToolError(f"{quote_name(str(path))}: not a regular file but a {type_name(mode)}; it was left alone")
        yield file


def _read(file: BinaryIO, status: os.stat_result) -> bytes:
    if status.st_size > MAX_BYTES:
        raise ToolError(
            f"the file has {status.st_size} bytes, and more than {MAX_BYTES} are not edited; use sed with bash"
        )
    return file.read(MAX_BYTES)


def _same(path: Path, file: BinaryIO, status: os.stat_result, data: bytes) -> bool:
    """Whether the path still leads to the file that was read, with what was read.

    The content is compared too: two changes within one tick of the clock have the same time.
    """
    file.seek(0)
    at = 0
    while piece := file.read(_PIECE_BYTES):
        if not data.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(data) and _unchanged(path, status)


def _unchanged(path: Path, status: os.stat_result) -> bool:
    try:
        return _marks(os.stat(path)) == _marks(status)
    except FileNotFoundError:
        return False


def _marks(status: os.stat_result) -> tuple[int, ...]:
    """What tells files and their changes apart, and all that a file put in its place is given again."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_nlink,
    )


def _answer(name: str, before: str, revision: Revision, encoding: Encoding) -> str:
    after = revision.text
    pairs, feeds = crlf(after), after.count("\n")
    notes = [] if encoding == UTF8 else [f"encoding {encoding}"]
    if pairs:
        every = pairs == feeds
        notes.append("lines end in CRLF" if every else f"{pairs} lines end in CRLF, {feeds - pairs} in LF")
    plain = pairs == feeds and crlf(before) == before.count("\n")
    message = [f"edited {name}: {revision.replaced} replacement{'' if revision.replaced == 1 else 's'}"]
    message += [f"[{'; '.join(notes)}]"] if notes else []
    return _showable("\n".join([*message, unified(before, after, revision.changes, name, plain)]))


EDIT = TypedTool(
    "edit",
    "Replace exact text in a file: all edits or none. Keeps encoding, line ends, mode, owner, links. Answers a diff.",
    Edit,
    _edit,
    lambda arguments, workspace: workspace.access("write", arguments.path),
    _preview,
)
