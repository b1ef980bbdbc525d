"""New content for a file: the old stays whole until the new is, and everything else about the file stays as it is."""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.file_type import type_name

# A file's name may have 255 bytes; the draft beside it needs some of them.
_NAME_BYTES = 200
# A new file cannot take the old one's place: the directory may not be written, or the file is itself a mount.
_IN_PLACE = {errno.EACCES, errno.EPERM, errno.EBUSY}


def regular_status(path: Path) -> os.stat_result | None:
    """The file's status, or None when there is none. Raises ToolError for anything that is no regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path}: not a regular file but a {type_name(status.st_mode)}; it was left alone")
    return status


def _no_check() -> None:
    pass


def replace(path: Path, content: bytes, status: os.stat_result | None, check: Callable[[], None] = _no_check) -> None:
    """Put `content` into the file whose status this is, or into a new one, in one step where that can be.

    A symbolic link stays, and its target is replaced. Mode, owner and extended attributes stay. Where a new
    file could not take the old one's place without losing something (hard links, an owner that may not be given,
    a directory that may not be written, a file mounted by itself), the old one is written over, after room for
    all of it was taken.
    `check` is called at the last moment, and stops it all by raising.
    Raises OSError, with the old content whole.
    """
    target = Path(os.path.realpath(path))
    if status is not None and status.st_nlink > 1:
        check()
        _overwrite(target, content)
        return
    draft = target.with_name(f".{os.fsdecode(os.fsencode(target.name)[:_NAME_BYTES])}.{secrets.token_hex(4)}")
    try:
        _draft(draft, content, target, status)
        check()
        os.replace(draft, target)
    except OSError as error:
        _discard(draft)
        if status is None or error.errno not in _IN_PLACE:
            raise
        check()
        _overwrite(target, content)
    except BaseException:
        _discard(draft)
        raise


def _draft(draft: Path, content: bytes, target: Path, status: os.stat_result | None) -> None:
    mode = 0o666 if status is None else 0o600
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if status is None:
            return
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.fstat(descriptor).st_gid):
            os.fchown(descriptor, status.st_uid, status.st_gid)
        _copy_attributes(target, descriptor)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _copy_attributes(target: Path, descriptor: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for name in os.listxattr(target):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(target, name))


def _overwrite(target: Path, content: bytes) -> None:
    with open(target, "r+b") as file:
        if content and hasattr(os, "posix_fallocate"):
            before = os.fstat(file.fileno()).st_size
            try:
                os.posix_fallocate(file.fileno(), 0, len(content))
            except OSError:
                os.ftruncate(file.fileno(), before)
                raise
        file.write(content)
        file.truncate()


def _discard(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink()
