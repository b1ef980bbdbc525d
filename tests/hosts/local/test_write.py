"""The tool `write`: all of it or nothing, and everything else about the file stays."""

import asyncio
import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local import write as module
from tests.hosts import CALL, NOBODY, Machine, as_nobody, ok_text


def write(here: Machine, path: str | Path, content: str, **arguments: Any) -> str:
    return ok_text(here.run(here.host.call("write", {"path": str(path), "content": content, **arguments}, CALL)))


def refused(here: Machine, path: str | Path, content: str = "x", **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        write(here, path, content, **arguments)
    assert str(path) in str(caught.value)
    return str(caught.value)


def names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def test_it_says_what_it_did(here: Machine) -> None:
    file = here.directory / "f"
    assert write(here, "f", "one\ntwo\n") == f"created {file}: 2 lines, 8 bytes"
    assert write(here, "f", "é") == f"replaced {file}: 1 line, 2 bytes"
    assert write(here, "f", "", append=True) == f"appended to {file}: 0 lines, 0 bytes; it has 2 bytes now"
    assert write(here, "f", "\n!", append=True) == (
        f"appended to {file}: 2 lines, 2 bytes; it has 4 bytes now\n"
        "[its last line had no end, and goes on with what was appended]"
    )
    assert file.read_text() == "é\n!"
    assert write(here, "new", "x", append=True) == f"created {here.directory / 'new'}: 1 line, 1 byte"
    assert names(here.directory) == {"f", "new"}


# With a NUL in it the file may be no text to the append.
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    more=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_any_text_is_written_as_it_is(shared: Machine, text: str, more: str) -> None:
    file = shared.directory / "f"
    write(shared, file, text)
    assert file.read_bytes() == text.encode()
    write(shared, file, more, append=True)
    assert file.read_bytes() == (text + more).encode()


@pytest.mark.parametrize("codec", ["utf-16", "utf-32", "gb18030", "utf-8-sig"])
def test_an_append_is_in_the_files_own_encoding(here: Machine, codec: str) -> None:
    file = here.directory / "f"
    file.write_bytes("你好,世界。这是一个测试文件。\n".encode(codec))
    answer = write(here, "f", "更多 🙂\n", append=True)
    assert file.read_bytes().decode(codec) == "你好,世界。这是一个测试文件。\n更多 🙂\n"
    assert "[encoding " in answer
    assert "no end" not in answer


def test_an_append_that_the_file_has_no_bytes_for(here: Machine) -> None:
    file = here.directory / "f"
    file.write_bytes("Привет, мир. Это проверка.\n".encode("cp1251"))
    before = file.read_bytes()
    assert refused(here, "f", "世", append=True).endswith(
        "the file is CP1251 (a guess), which cannot write CJK UNIFIED IDEOGRAPH-4E16 (U+4E16)"
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize(("added", "codec"), [("ñ", "cp1252"), ("ł", "cp1250")])
def test_an_append_in_an_encoding_that_can_write_it(here: Machine, added: str, codec: str) -> None:
    (here.directory / "f").write_bytes("café\n".encode(codec))
    assert f"encoding {codec.upper()} (a guess)" in write(here, "f", added, append=True)
    assert (here.directory / "f").read_bytes() == f"café\n{added}".encode(codec)


def test_nothing_is_appended_to_what_is_no_text(here: Machine) -> None:
    (here.directory / "f").write_bytes(bytes(range(8)) * 10)
    assert "it is not text (application/octet-stream); append with bash" in refused(here, "f", append=True)
    assert (here.directory / "f").read_bytes() == bytes(range(8)) * 10


def test_an_append_of_other_line_ends_is_told(here: Machine) -> None:
    (here.directory / "f").write_bytes(b"one\r\n")
    assert "it has lines that end in CRLF" in write(here, "f", "two\n", append=True)
    assert "CRLF" not in write(here, "f", "three\r\n", append=True)


def test_a_name_that_ends_like_a_directory(here: Machine) -> None:
    assert "ends like a directory" in refused(here, "new/")
    assert names(here.directory) == set()


def test_no_append_is_lost_to_an_edit(here: Machine) -> None:
    """Which puts another file in the place of the one that was opened."""
    (here.directory / "f").write_text("v=0\n")

    async def both() -> None:
        edits = ([{"old": f"v={number}\n", "new": f"v={number + 1}\n"}] for number in range(100))

        async def edit() -> None:
            for one in edits:
                await here.host.call("edit", {"path": "f", "edits": one}, CALL)

        async def append() -> None:
            for number in range(100):
                await here.host.call("write", {"path": "f", "content": f"{number}\n", "append": True}, CALL)

        await asyncio.gather(edit(), append(), append(), append())

    here.run(both())
    lines = (here.directory / "f").read_text().split()
    assert lines[0] == "v=100"
    assert sorted(lines[1:], key=int) == [str(number) for number in range(100) for _ in range(3)]


@pytest.mark.parametrize("others", [b"", b"from another program"])
def test_an_append_that_fails_takes_back_its_own_only(here: Machine, others: bytes) -> None:
    path = here.directory / "f"
    path.write_bytes(b"before\n")

    class Failing(FileIO):
        def write(self, piece: Any) -> int:
            if len(piece) < 10:
                with path.open("ab") as other:
                    other.write(others)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(piece[:5])

    with Failing(path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        with pytest.raises(OSError):
            module._add(file, b"0123456789")
    assert path.read_bytes() == (b"before\n01234" + others if others else b"before\n")


def test_half_a_character_cannot_be_written(here: Machine) -> None:
    assert refused(here, "f", "a\ud800").endswith("holds half a character (the lone surrogate U+D800)")
    assert names(here.directory) == set()


def test_missing_directories_are_made(here: Machine) -> None:
    write(here, "a/b c/ü/f", "x")
    assert (here.directory / "a" / "b c" / "ü" / "f").read_text() == "x"


def test_a_file_that_is_a_mount_is_written_over(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /etc/hosts is in a container: nothing can be put in its place."""

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    file = here.directory / "f"
    file.write_text("old content")
    number = file.stat().st_ino
    monkeypatch.setattr(os, "replace", busy)
    assert write(here, "f", "new").startswith("replaced")
    assert (file.read_text(), file.stat().st_ino) == ("new", number)
    assert names(here.directory) == {"f"}
    assert "Device or resource busy; nothing was written" in refused(here, "g")


@pytest.mark.parametrize("name", ["-dash", "new\nline", "'quote\"", "😀", "x" * 255, " ", "*"])
def test_odd_names(here: Machine, name: str) -> None:
    for content in ("one", "two"):
        write(here, name, content)
    assert (here.directory / name).read_text() == "two"
    assert names(here.directory) == {name}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755, 0o666, 0o200])
def test_the_mode_stays(here: Machine, mode: int) -> None:
    file = here.directory / "f"
    file.write_text("old")
    file.chmod(mode)
    write(here, file, "new")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_the_umask_leaves(here: Machine) -> None:
    before = os.umask(0o027)
    try:
        write(here, "f", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((here.directory / "f").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="left out: only root gives files away")
def test_the_owner_stays(here: Machine) -> None:
    file = here.directory / "f"
    file.write_text("old")
    os.chown(file, NOBODY, NOBODY)
    file.chmod(0o640)
    write(here, file, "new")
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY, NOBODY, 0o640)
    assert file.read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="left out: only root gives files away")
def test_the_owner_stays_where_it_may_not_be_given(here: Machine) -> None:
    """Somebody else's file in a directory that all may write: the old one is written over."""
    here.directory.chmod(0o777)
    for parent in here.directory.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)
    file = here.directory / "f"
    file.write_text("the old one is longer")
    file.chmod(0o666)
    number = file.stat().st_ino
    with as_nobody():
        write(here, file, "new")
    assert (file.stat().st_uid, file.stat().st_ino, file.read_text()) == (0, number, "new")
    assert names(here.directory) == {"f"}


def test_a_file_in_a_directory_that_may_not_be_written(here: Machine) -> None:
    place = here.directory / "closed"
    place.mkdir()
    file = place / "f"
    file.write_text("the old one is longer")
    if os.geteuid() == 0:
        for parent in place.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(0o711)
        os.chown(file, NOBODY, NOBODY)
    place.chmod(0o555)
    try:
        with as_nobody():
            write(here, file, "new")
            assert "permission denied" in refused(here, place / "other").lower()
    finally:
        place.chmod(0o755)
    assert file.read_text() == "new"
    assert names(place) == {"f"}


def test_links_stay(here: Machine) -> None:
    target, other = here.directory / "sub" / "target", here.directory / "other"
    target.parent.mkdir()
    target.write_text("old")
    os.link(target, other)
    (here.directory / "link").symlink_to("sub/target")
    (here.directory / "dangling").symlink_to("nowhere/yet")
    write(here, "link", "new")
    assert (here.directory / "link").is_symlink()
    assert target.read_text() == other.read_text() == "new", "a hard link is the same file still"
    write(here, "dangling", "made")
    assert (here.directory / "nowhere" / "yet").read_text() == "made"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="left out: this system has no extended attributes here")
def test_extended_attributes_stay(here: Machine) -> None:
    file = here.directory / "f"
    file.write_text("old")
    try:
        os.setxattr(file, "user.origin", b"here")
    except OSError:
        pytest.skip("left out: this file system has no extended attributes")
    write(here, file, "new")
    assert os.getxattr(file, "user.origin") == b"here"


def test_what_is_no_regular_file_is_left_alone(here: Machine) -> None:
    (here.directory / "d").mkdir()
    os.mkfifo(here.directory / "fifo")
    (here.directory / "null").symlink_to("/dev/null")
    (here.directory / "round").symlink_to("round")
    for append in (False, True):
        assert "not a regular file but a directory" in refused(here, "d", append=append)
        assert "not a regular file but a FIFO" in refused(here, "fifo", append=append)
        assert "not a regular file but a character device" in refused(here, "null", append=append)
        refused(here, "round", append=append)
        refused(here, "f" * 256, append=append)
        (here.directory / "plain").write_text("x")
        refused(here, "plain/f", append=append)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow longer, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("links", [1, 2])
def test_a_full_disk_leaves_the_old_file(here: Machine, links: int) -> None:
    file = here.directory / "f"
    file.write_text("old")
    if links == 2:
        os.link(file, here.directory / "g")
    before = names(here.directory)
    with room_for(100_000):
        answer = refused(here, file, "x" * 200_000)
        assert "nothing was written" in answer
        assert "nothing was written" in refused(here, file, "x" * 200_000, append=True)
        refused(here, "new", "x" * 200_000)
    assert file.read_text() == "old"
    assert names(here.directory) == before
