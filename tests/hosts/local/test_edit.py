"""The tool `edit`: exact passages, all or none, and every byte that no edit is about stays."""

import asyncio
import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local import edit as module
from a2a_bridge.hosts.local.edit import EDIT
from a2a_bridge.hosts.local.edits import apply
from a2a_bridge.hosts.local.files import atomic_write as replacing
from a2a_bridge.hosts.local.files import text_codec
from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES, Encoding, detect_encoding
from a2a_bridge.hosts.local.files.lock import LOCKS
from a2a_bridge.hosts.local.workspace import Workspace
from tests.hosts import NOBODY, as_nobody, ok_text

Change = dict[str, Any]


class Desk:
    """A directory in which files are edited."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "f"
        self.place = Workspace(directory)
        self.runner = asyncio.Runner()

    def edit(self, *edits: Change, path: str | Path = "f") -> str:
        return ok_text(self.runner.run(EDIT({"path": str(path), "edits": list(edits)}, self.place)))

    def refused(self, *edits: Change, path: str | Path = "f") -> str:
        """An edit that is refused leaves everything as it is, and names the file."""
        before = contents(self.directory)
        with pytest.raises(ToolError) as caught:
            self.edit(*edits, path=path)
        assert contents(self.directory) == before
        message = str(caught.value)
        assert message.startswith(f"{self.place.path(str(path))}: ")
        return message

    def close(self) -> None:
        self.place.close()
        self.runner.close()


def contents(directory: Path) -> dict[str, bytes | None]:
    return {entry.name: entry.read_bytes() if entry.is_file() else None for entry in directory.iterdir()}


def change(old: str, new: str, **more: Any) -> Change:
    return {"old": old, "new": new, **more}


X = change("old", "new")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """For properties, which run many examples in one test."""
    desk = Desk(tmp_path_factory.mktemp("shared"))
    yield desk
    desk.close()


def test_it_says_what_it_did(desk: Desk) -> None:
    desk.file.write_text("one\ntwo\nthree\n")
    assert desk.edit(change("two", "2")) == (
        f"edited {desk.file}: 1 replacement\n--- {desk.file}\n+++ {desk.file}\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    )
    assert desk.file.read_text() == "one\n2\nthree\n"
    assert desk.edit(change("e\n", "E\n", all=True), change("2", "two")).startswith(f"edited {desk.file}: 3 repl")
    assert desk.file.read_text() == "onE\ntwo\nthreE\n"
    assert contents(desk.directory).keys() == {"f"}


def test_it_tells_what_the_diff_does_not_show(desk: Desk) -> None:
    for data, note in [
        (b"a\nold\n", None),
        (b"a\r\nold\r\n", "[lines end in CRLF]"),
        (b"a\r\nb\r\nold\n", "[2 lines end in CRLF, 1 in LF]"),
        (b"\xef\xbb\xbfold\r\n", "[encoding UTF-8 with BOM; lines end in CRLF]"),
        ("old\n".encode("utf-16"), "[encoding UTF-16-LE with BOM]"),
        ((GERMAN + "old\n").encode("cp1252"), "[encoding CP1252 (a guess)]"),
    ]:
        desk.file.write_bytes(data)
        rows = desk.edit(X).split("\n")
        assert rows[1] == (note or f"--- {desk.file}")


def test_edits_are_made_in_order_on_what_the_others_made(desk: Desk) -> None:
    desk.file.write_text("a b\n")
    answer = desk.edit(change("a", "b"), change("b b", "c\nd"), change("d", "e"))
    assert desk.file.read_text() == "c\ne\n"
    assert answer.endswith("@@ -1,1 +1,2 @@\n-a b\n+c\n+e")


def test_the_diff_is_of_all_edits(desk: Desk) -> None:
    desk.file.write_text("".join(f"{number}\n" for number in range(100, 150)))
    answer = desk.edit(change("103\n", "x\ny\n"), change("140", "z"))
    assert "\n 102\n-103\n+x\n+y\n 104\n" in answer
    assert "@@ -38,7 +39,7 @@" in answer
    assert "\n 139\n-140\n+z\n 141\n" in answer


def test_the_diff_shows_returns_where_they_matter(desk: Desk) -> None:
    desk.file.write_bytes(b"a\r\nold\n")
    assert "\n a\r\n-old\n+new" in desk.edit(X)
    desk.file.write_bytes(b"old\n")
    assert "\n-old\n+old\r" in desk.edit(change("old\n", "old\r\n"))
    assert "\n-old\r\n+old" in desk.edit(change("old\r", "old"))
    assert desk.file.read_bytes() == b"old\n"


def test_all_or_nothing(desk: Desk) -> None:
    desk.file.write_text("a\nb\n")
    message = desk.refused(change("a", "x"), change("c", "y"), change("b", "z"))
    assert "nothing was written; edits[1] (after the edits before it): old is not there" in message
    message = desk.refused(change("a", "x"), change("a", "y"))
    assert "edits[1]" in message
    assert "an earlier edit of this call changed" in message


# --- What matches.


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        ("a\nb\na\n", "a", "old matches 2 times, in lines 1, 3; add lines around it to old and new, or set all"),
        ("a\r\n\nx\r\na\r\n", "a\n", "old matches 2 times, in lines 1, 4;"),
        ("x a a\n", "a", "old matches 2 times, in line 1;"),
        ("aaa", "aa", "old matches 2 times, in line 1;"),
        ("a\n" * 12, "a", "old matches 12 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;"),
        ("a" * 200_000, "a", "old matches more than 100000 times, in line 1, …;"),
        ("\n" * 5, "\n\n", "old matches 4 times, in lines 1, 2, 3, 4;"),
    ],
)
def test_several_matches(desk: Desk, text: str, old: str, expected: str) -> None:
    desk.file.write_bytes(text.encode())
    assert f"{desk.file}: nothing was written; edits[0]: {expected}" in desk.refused(change(old, "x"))


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        ("a\n\tb c\n", "    b c", "line 2 has a tab where old has 4 spaces:\n     2\t\tb c"),
        ("first line\nsecond line\n", "second lime", "the nearest line is:\n     2\tsecond line"),
        ("a\n", "b", "nothing like it is in the file"),
        ("", "b", "the file is empty"),
        ("A\n", "a", "line 1 has 'A' where old has 'a' (letter case)"),
    ],
)
def test_no_match(desk: Desk, text: str, old: str, expected: str) -> None:
    desk.file.write_bytes(text.encode())
    for more in ({}, {"all": True}):
        message = desk.refused(change(old, "x", **more))
        assert message.startswith(f"{desk.file}: nothing was written; edits[0]: old is not there; ")
        assert expected in message


def test_too_many(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "MAX_MATCHES", 5)
    desk.file.write_text("aaaaaa")
    assert "more than 5 times; use sed" in desk.refused(change("a", "b", all=True))
    desk.file.write_text("aaaaa")
    desk.edit(change("a", "b", all=True))
    monkeypatch.setattr(apply, "MAX_CHARACTERS", 100)
    assert "more than 100 characters" in desk.refused(change("b", "x" * 21, all=True))
    desk.edit(change("b", "x" * 20, all=True))


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([change("", "x")], "edits[0]: old is empty"),
        ([X, change("", "x")], "edits[1] (after the edits before it): old is empty"),
        ([change("old", "old")], "edits[0]: old and new are the same"),
        ([X, change("new", "old")], "the edits together change nothing"),
        ([change("\ud800", "x")], "edits[0]: old holds half a character (the lone surrogate U+D800)"),
        ([change("old", "\udce9")], "edits[0]: new holds half a character (the lone surrogate U+DCE9)"),
    ],
)
def test_unsound_edits(desk: Desk, edits: list[Change], expected: str) -> None:
    desk.file.write_text("old\n")
    assert expected in desk.refused(*edits)


def test_ends_alone_are_not_changed(desk: Desk) -> None:
    desk.file.write_bytes(b"old\r\n")
    assert "lines keep their line ends" in desk.refused(change("old\r\n", "old\n"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "f", "edits": []}, "length >= 1"),
        ({"path": "f"}, "edits"),
        ({"path": "f", "edits": [{"old": "a"}]}, "new"),
        ({"path": "f", "edits": [change("a", "b", every=True)]}, "every"),
        ({"path": "f", "edits": [X], "dry": True}, "dry"),
        ({"path": "f", "edits": [change("a", "b", all="yes")]}, "all"),
    ],
)
def test_wrong_arguments(desk: Desk, arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ToolError, match="invalid arguments for edit") as caught:
        desk.runner.run(EDIT(arguments, desk.place))
    assert expected in str(caught.value)


def test_every_argument_is_described() -> None:
    shown = EDIT.definition.input_schema
    (inner,) = shown["$defs"].values()
    for properties in (shown["properties"], inner["properties"]):
        assert all(part["description"] for part in properties.values())
    assert shown["additionalProperties"] is inner["additionalProperties"] is False
    assert len(EDIT.definition.description) < 150


# --- What stays.

GERMAN = "Häuser stehen in der großen Straße, überall sind Bäume und schöne Gärten für die Bürger.\n" * 3
CHINESE = "这是一个测试文件，用来测试编码检测。我们希望它能够正确识别。\n" * 3
# Where a guess is needed, the text begins with enough to guess by.
ENCODINGS = {
    "utf-8": (Encoding("utf-8"), ""),
    "utf-8 with mark": (Encoding("utf-8", b"\xef\xbb\xbf"), ""),
    "utf-16-le": (Encoding("utf-16-le", b"\xff\xfe"), ""),
    "utf-16-be": (Encoding("utf-16-be", b"\xfe\xff"), ""),
    "utf-32-le": (Encoding("utf-32-le", b"\xff\xfe\0\0"), ""),
    "cp1252": (Encoding("cp1252", guessed=True), GERMAN),
    "gb18030": (Encoding("gb18030", guessed=True), CHINESE),
}
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n#\ufeff\0"), max_size=10)
PLAIN = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"], exclude_characters="#"), max_size=10)
ENDS = st.sampled_from([["\n"], ["\r\n"], ["\n", "\r\n"]])


@pytest.mark.parametrize("name", ENCODINGS)
@given(data=st.data())
def test_all_but_the_passage_stays(shared: Desk, name: str, data: st.DataObject) -> None:
    encoding, beginning = ENCODINGS[name]
    line = PLAIN if beginning else LINE
    contents = data.draw(st.lists(line, min_size=1, max_size=6))
    kinds = data.draw(ENDS)
    ends = [data.draw(st.sampled_from(kinds)) for _ in contents]
    if data.draw(st.booleans()):
        ends[-1] = ""
    lines = [f"#{number}:{content}" for number, content in enumerate(contents)]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    new = [f"#{content}" for content in data.draw(st.lists(line, min_size=last - first + 1, max_size=last - first + 1))]

    def whole(middle: list[str]) -> bytes:
        data = [*lines[:first], *middle, *lines[last + 1 :]]
        text = beginning + "".join(content + end for content, end in zip(data, ends, strict=True))
        return encoding.mark + text.encode(encoding.codec)

    before = whole(lines[first : last + 1])
    assert detect_encoding(before) == encoding
    shared.file.write_bytes(before)
    closing = "\n" if ends[last] and data.draw(st.booleans()) else ""
    answer = shared.edit(change("\n".join(lines[first : last + 1]) + closing, "\n".join(new) + closing))
    assert shared.file.read_bytes() == whole(new)
    assert (f"encoding {encoding}" in answer) is (name != "utf-8")


@given(
    before=st.binary(max_size=30), after=st.binary(max_size=30), new=st.text("aé\n漢", max_size=5), mark=st.booleans()
)
def test_bytes_that_do_not_decode_stay(shared: Desk, before: bytes, after: bytes, new: str, mark: bool) -> None:
    """In a file whose beginning is clearly UTF-8."""
    head = b"\xef\xbb\xbf" * mark + "ünïcödé ".encode() * 10 + b"x" * 65536 + before.replace(b"#", b"") + b" "
    tail = b" " + after.replace(b"#", b"")
    shared.file.write_bytes(head + b"#" + tail)
    crlf = (head + tail).count(b"\r\n")
    shared.edit(change("#", f"!{new}"))
    now = shared.file.read_bytes()
    assert now.startswith(head + b"!")
    assert now.endswith(tail)
    middle = now[len(head) : len(now) - len(tail)]
    assert (middle.replace(b"\r\n", b"\n") if crlf else middle) == f"!{new}".encode()


def test_what_does_not_decode_is_shown_but_never_written_as_replacement_characters(desk: Desk) -> None:
    desk.file.write_bytes(b"caf\xe9 old \xc3\xa9\xc3\xa9\n")
    assert " (U+FFFD)" not in (message := desk.refused(change("old", "\ufffd")))
    assert "new holds U+FFFD, which read displays for bytes that do not decode" in message
    assert "the byte 0xE9, which does not decode, where old has REPLACEMENT" in desk.refused(change("caf\ufffd", "x"))
    message = desk.refused(change("caf\ufffd good \u00e9", "x"))
    assert "caf\ufffd old" in message
    assert message.isprintable() or "\n" in message
    assert "-caf\ufffd old éé\n+caf\ufffd new éé" in desk.edit(X)
    assert desk.file.read_bytes() == b"caf\xe9 new \xc3\xa9\xc3\xa9\n"
    desk.file.write_text("old \ufffd\n")
    desk.edit(change("old", "\ufffd\ufffd"))
    assert desk.file.read_text() == "\ufffd\ufffd \ufffd\n", "where all decodes, it is a character like others"


def test_bytes_are_not_joined_to_characters_unseen(desk: Desk) -> None:
    """In GB 18030 a stray byte and the ASCII letter after it may be one character."""
    text = CHINESE.encode("gb18030") * 400
    assert detect_encoding(text[:SAMPLE_BYTES]) == ENCODINGS["gb18030"][0]
    desk.file.write_bytes(text + b"\x81 old\n")
    assert "next to bytes that do not decode" in desk.refused(change(" old", "old"))
    desk.edit(X)
    assert desk.file.read_bytes() == text + b"\x81 new\n"


def test_an_encoding_that_cannot_write_it(desk: Desk) -> None:
    desk.file.write_bytes(GERMAN.encode("cp1252") + b"old")
    message = desk.refused(change("old", "né 世"))
    assert "the file is CP1252 (a guess), which cannot write CJK UNIFIED IDEOGRAPH-4E16 (U+4E16)" in message
    desk.edit(change("old", "né €"))
    assert desk.file.read_bytes() == GERMAN.encode("cp1252") + b"n\xe9 \x80"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is not text (image/png)"),
        (b"\xff\xfeo\0l\0d\0\0\xd8x\0", "it is UTF-16-LE with BOM, but its byte 8 (from 0) does not decode"),
        (b"\xff\xfeo\0l\0d\0\x80\xd8x\0", "it is UTF-16-LE with BOM, but its byte 8 (from 0) does not decode"),
        (b"\xfe\xff\0o\0l\0d\0", "it is UTF-16-BE with BOM, but its byte 8 (from 0) does not decode"),
    ],
)
def test_what_is_not_text_all_through(desk: Desk, data: bytes, expected: str) -> None:
    desk.file.write_bytes(data)
    assert f"{desk.file}: nothing was written; {expected}" in desk.refused(X)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        ("utf-16", "old".encode("utf-16-le")),  # would be written with a mark
        ("utf-7", b"old +- +AOk-+AOk-"),  # may be written in several ways
        ("no such codec", b"old"),
    ],
)
def test_an_encoding_that_does_not_give_the_bytes_back(
    desk: Desk, codec: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.file.write_bytes(data)
    monkeypatch.setattr(text_codec, "detect_encoding", lambda _: Encoding(codec, guessed=True))
    assert f"its bytes change when they are read and written as {codec.upper()} (a guess)" in desk.refused(X)


@pytest.mark.parametrize(
    ("before", "new", "codec"),
    [
        ("caf\xe9\nold\n", "\xf1", "cp1252"),  # é is the same byte in CP1250, where ñ does not exist
        ("caf\xe9\nold\n", "\u0142", "cp1250"),
        ("caf\xe9\nold\n", "plain", "cp1252"),
    ],
)
def test_of_encodings_that_read_alike_one_that_can_write_the_new_text(
    desk: Desk, before: str, new: str, codec: str
) -> None:
    desk.file.write_bytes(before.encode(codec))
    answer = desk.edit(change("old", new))
    assert f"[encoding {codec.upper()} (a guess)]" in answer
    assert desk.file.read_bytes() == before.replace("old", new).encode(codec)


# --- The file stays the file.


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755, 0o666])
def test_the_mode_stays(desk: Desk, mode: int) -> None:
    desk.file.write_text("old")
    desk.file.chmod(mode)
    desk.edit(X)
    assert stat.S_IMODE(desk.file.stat().st_mode) == mode
    assert desk.file.read_text() == "new"


def test_links_stay(desk: Desk) -> None:
    (desk.directory / "sub").mkdir()
    target = desk.directory / "sub" / "target"
    target.write_text("old, and longer")
    os.link(target, desk.directory / "hard")
    (desk.directory / "soft").symlink_to("sub/target")
    desk.edit(X, path="soft")
    assert (desk.directory / "soft").is_symlink()
    desk.edit(change(", and longer", ""), path="hard")
    assert target.read_text() == (desk.directory / "hard").read_text() == "new"
    assert target.stat().st_nlink == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="left out: only root gives files away")
def test_the_owner_stays(desk: Desk) -> None:
    desk.file.write_text("old")
    os.chown(desk.file, NOBODY, NOBODY)
    desk.edit(X)
    assert (desk.file.stat().st_uid, desk.file.stat().st_gid, desk.file.read_text()) == (NOBODY, NOBODY, "new")


def open_to_all(directory: Path) -> None:
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)


def test_a_file_in_a_directory_that_may_not_be_written(desk: Desk) -> None:
    place = desk.directory / "closed"
    place.mkdir()
    file = place / "f"
    file.write_text("old, and longer")
    open_to_all(file)
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    place.chmod(0o555)
    try:
        with as_nobody():
            desk.edit(change("old, and longer", "new"), path=file)
    finally:
        place.chmod(0o755)
    assert contents(place) == {"f": b"new"}


def test_a_file_that_may_not_be_read(desk: Desk) -> None:
    desk.file.write_text("old")
    open_to_all(desk.file)
    desk.file.chmod(0)
    with as_nobody(), pytest.raises(ToolError, match="Permission denied; nothing was written"):
        desk.edit(X)
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0


def test_what_is_no_file(desk: Desk) -> None:
    (desk.directory / "d").mkdir()
    os.mkfifo(desk.directory / "fifo")
    (desk.directory / "null").symlink_to("/dev/null")
    (desk.directory / "round").symlink_to("round")
    assert "not a regular file but a directory; it was left alone" in desk.refused(X, path="d")
    assert "not a regular file but a FIFO" in desk.refused(X, path="fifo")
    assert "not a regular file but a character device" in desk.refused(X, path="null")
    assert "nothing was written" in desk.refused(X, path="round")
    assert "nothing was written" in desk.refused(X, path="x" * 256)
    for missing in ("f", "no/such/directory"):
        assert "no such file; nothing was written; make a new file with write" in desk.refused(X, path=missing)


def test_a_fifo_that_takes_the_files_place_is_not_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.file.write_text("old")
    opening = os.open

    def swapped(path: Any, *arguments: Any, **more: Any) -> int:
        if path == desk.file:
            desk.file.unlink()
            os.mkfifo(desk.file)
        return opening(path, *arguments, **more)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(ToolError, match="not a regular file but a FIFO; it was left alone"):
        desk.edit(X)


def test_a_file_that_is_too_large(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk.file.open("wb") as file:
        file.truncate(text_codec.MAX_BYTES + 1)
    with pytest.raises(ToolError, match=f"the file has {text_codec.MAX_BYTES + 1} bytes, and more than"):
        desk.edit(X)
    desk.file.write_text("old!!")
    monkeypatch.setattr(module, "MAX_BYTES", 5)
    desk.edit(X)


@pytest.mark.parametrize("links", [1, 2])
def test_a_full_disk_leaves_the_old_file(desk: Desk, links: int, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.file.write_text("old")
    if links == 2:
        os.link(desk.file, desk.directory / "g")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(replacing, "_copy_attributes", full)
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert "No space left on device; nothing was written" in desk.refused(X)


# --- Others at the same file.


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once, at the last moment before the file is replaced."""
    done: list[int] = []

    def late(path: Path, content: bytes, status: os.stat_result, check: Callable[[], None]) -> None:
        def checked() -> None:
            if not done:
                done.append(1)
                act()
            check()

        replacing.replace(path, content, status, checked)

    monkeypatch.setattr(module, "replace", late)


def rewritten(file: Path) -> None:
    file.write_text("mine")


def at_the_same_time(file: Path) -> None:
    """With the same size, in the same tick of the clock."""
    status = file.stat()
    file.write_text("odl")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def touched(file: Path) -> None:
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def another_put_there(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("old")
    status = file.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)


def longer(file: Path) -> None:
    status = file.stat()
    file.write_text("old and more")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def with_another_mode(file: Path) -> None:
    file.chmod(0o604)


def linked(file: Path) -> None:
    os.link(file, file.with_name("link"))


@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize(
    "act", [rewritten, at_the_same_time, touched, another_put_there, longer, with_another_mode, linked, Path.unlink]
)
def test_a_change_by_somebody_else_is_seen(
    desk: Desk, act: Callable[[Path], None], links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.file.write_text("old")
    if links == 2:
        os.link(desk.file, desk.directory / "g")
    after: list[dict[str, bytes | None]] = []

    def change_it() -> None:
        drafts = set(contents(desk.directory)) - {"f", "g"}
        assert len(drafts) == (links == 1), "it is the last moment"
        act(desk.file)
        after.append({name: data for name, data in contents(desk.directory).items() if name not in drafts})

    meanwhile(monkeypatch, change_it)
    with pytest.raises(ToolError) as caught:
        desk.edit(X)
    expected = "changed by someone else while it was edited; nothing was written; read it again"
    assert str(caught.value) == f"{desk.file}: {expected}"
    assert [contents(desk.directory)] == after


def test_a_link_that_leads_elsewhere_by_now_is_seen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (desk.directory / name).write_text("old")
    link = desk.directory / "f"
    link.symlink_to("one")

    def led_elsewhere() -> None:
        link.unlink()
        link.symlink_to("two")

    meanwhile(monkeypatch, led_elsewhere)
    with pytest.raises(ToolError, match="changed by someone else"):
        desk.edit(X)
    assert (desk.directory / "one").read_text() == (desk.directory / "two").read_text() == "old"


def test_a_large_file_is_compared_to_its_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.file.write_text("old" + "x" * 3_000_000)
    status = desk.file.stat()

    def last_byte() -> None:
        with desk.file.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"y")
        os.utime(desk.file, ns=(status.st_atime_ns, status.st_mtime_ns))

    meanwhile(monkeypatch, last_byte)
    with pytest.raises(ToolError, match="changed by someone else"):
        desk.edit(X)


@pytest.mark.parametrize("looks", [0, 1])
def test_a_cancelled_edit_writes_nothing(desk: Desk, looks: int) -> None:
    """Cancelled before, or while the new content was prepared."""
    desk.file.write_text("old")
    answers = iter([False] * looks + [True] * 9)
    with pytest.raises(ToolError, match="cancelled; nothing was written"):
        module._edited(desk.file, [apply.Replacement("old", "new")], lambda: next(answers))
    assert contents(desk.directory) == {"f": b"old"}


def test_a_call_that_is_cancelled_tells_its_thread(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.file.write_text("old")
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    edited = module._edited

    def slow(*arguments: Any) -> Any:
        begun.set()
        assert goes_on.wait(20)
        return apply.revise(*arguments)

    def watched(*arguments: Any) -> str:
        try:
            return edited(*arguments)
        finally:
            ended.set()

    monkeypatch.setattr(module, "revise", slow)
    monkeypatch.setattr(module, "_edited", watched)

    async def cancelled() -> None:
        call = asyncio.create_task(EDIT({"path": "f", "edits": [X]}, desk.place))
        assert await asyncio.to_thread(begun.wait, 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    desk.runner.run(cancelled())
    goes_on.set()
    assert ended.wait(20)
    assert contents(desk.directory) == {"f": b"old"}


@pytest.mark.parametrize("links", [1, 2])
def test_edits_of_one_file_at_once_are_all_made(desk: Desk, links: int) -> None:
    """By several names, and though each may put another file in the place of the one before."""
    numbers = range(40)
    desk.file.write_text("".join(f"<{number}>\n" for number in numbers))
    names = ["f", "soft"]
    (desk.directory / "soft").symlink_to("f")
    if links == 2:
        os.link(desk.file, desk.directory / "hard")
        names.append("hard")

    async def at_once() -> None:
        calls = [
            EDIT({"path": names[number % len(names)], "edits": [change(f"<{number}>", f"({number})")]}, desk.place)
            for number in numbers
        ]
        for result in await asyncio.gather(*calls):
            assert ok_text(result).startswith("edited ")

    desk.runner.run(at_once())
    assert desk.file.read_text() == "".join(f"({number})\n" for number in numbers)


def test_an_edit_waits_for_another_of_the_same_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins to read only when the first has put its file in place, and then sees what that made."""
    desk.file.write_text("old")
    order: list[str] = []
    second = threading.Thread(target=lambda: module._edited(desk.file, [made("new", "newer")], lambda: False))
    held = LOCKS

    def first(*arguments: Any) -> Any:
        order.append(arguments[0])
        if len(order) == 1:
            assert sum(lock.locked() for lock in held) == 1
            second.start()
        return apply.revise(*arguments)

    monkeypatch.setattr(module, "revise", first)
    module._edited(desk.file, [made("old", "new")], lambda: False)
    second.join(20)
    assert order == ["old", "new"]
    assert desk.file.read_text() == "newer"
    assert not any(lock.locked() for lock in held)


def made(old: str, new: str) -> apply.Replacement:
    return apply.Replacement(old, new)


def test_a_refused_edit_lets_others_at_the_file(desk: Desk) -> None:
    desk.file.write_text("old")
    desk.refused(change("nothing", "x"))
    desk.edit(X)
    assert desk.file.read_text() == "new"


# --- Large files.


def test_one_line_of_a_large_file(desk: Desk) -> None:
    line = b"some line of text here, forty characters\n"
    for end in (b"\n", b"\r\n"):
        before = line.replace(b"\n", end) * 250_000
        desk.file.write_bytes(before + b"old" + end + before)
        assert "\n-old\n+new\n" in desk.edit(X)
        assert desk.file.read_bytes() == before + b"new" + end + before


def test_many_replacements_have_a_short_diff(desk: Desk) -> None:
    desk.file.write_text("old\nx\n" * 50_000)
    answer = desk.edit(change("old", "new", all=True))
    assert desk.file.read_text() == "new\nx\n" * 50_000
    assert len(answer) < 10_000
    assert re.search(r"\[… \d+ lines of the diff left out …\]", answer)


def test_odd_names(desk: Desk) -> None:
    for name in ("-dash", "new\nline", "'quote\"", "x" * 255, " "):
        (desk.directory / name).write_text("old")
        answer = desk.edit(X, path=name)
        assert (desk.directory / name).read_text() == "new"
        assert answer.split("\n")[1].startswith("--- ")
