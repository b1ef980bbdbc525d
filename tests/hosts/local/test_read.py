"""The tool `read`: files in windows of numbered lines, directories as lists, and everything else refused in words."""

import asyncio
import base64
import contextlib
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local import read
from a2a_bridge.hosts.local.files import line_reader as stream
from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES
from a2a_bridge.hosts.local.files.line_reader import MAX_LINE_LENGTH, PIECE_BYTES
from a2a_bridge.hosts.local.read import DEFAULT_LINES, MAX_BYTES, MAX_IMAGE_BASE64
from a2a_bridge.tool import Image
from tests.hosts import CALL, Machine, as_nobody, soon

linux = pytest.mark.skipif(sys.platform != "linux", reason="left out: /proc is Linux's own")


MORE = "[more lines follow; continue with offset "


def refused(here: Machine, path: str | Path, **arguments: Any) -> str:
    """The words of the refusal, in which the path is named."""
    with pytest.raises(ToolError) as caught:
        here.read(path, **arguments)
    assert str(here.directory / path) in str(caught.value)
    return str(caught.value)


def window(shown: str) -> tuple[list[tuple[int, str]], int | None]:
    """The numbered lines of an answer, and the offset that it says to continue with."""
    lines = shown.split("\n")
    following = None
    while lines[-1].startswith("["):
        note = lines.pop()
        if note.startswith(MORE):
            following = int(note.removeprefix(MORE).removesuffix("]"))
    return [(int(number), line) for number, _, line in (line.partition("\t") for line in lines)], following


def tiles(here: Machine, path: Path, **arguments: Any) -> list[tuple[int, str]]:
    """All lines, window after window, each from where the one before said."""
    found: list[tuple[int, str]] = []
    offset: int | None = 1
    while offset is not None:
        lines, following = window(here.read(path, offset=offset, **arguments))
        assert lines, "a window without a line would never end"
        found += lines
        assert following is None or following == offset + len(lines)
        offset = following
    return found


def test_lines_and_their_numbers(here: Machine) -> None:
    (here.directory / "f").write_text("one\n\n  three\tx\nfour")
    assert here.read("f") == "     1\tone\n     2\t\n     3\t  three\tx\n     4\tfour"


@pytest.mark.parametrize("content", ["a\nb", "a\nb\n", "a\r\nb\r\n", "a\r\nb"])
def test_line_ends_are_not_shown(here: Machine, content: str) -> None:
    (here.directory / "f").write_bytes(content.encode())
    note = "\n[lines end in CRLF]" if "\r" in content else ""
    assert here.read("f") == f"     1\ta\n     2\tb{note}"


def test_mixed_line_ends_are_told(here: Machine) -> None:
    (here.directory / "f").write_bytes(b"a\r\nb\nc\r\nd")
    assert here.read("f").endswith("     4\td\n[2 of these lines end in CRLF, the others in LF]")
    assert here.read("f", offset=2, limit=1).endswith(f"\tb\n{MORE}3]")


def test_a_lone_carriage_return_ends_no_line(here: Machine) -> None:
    (here.directory / "f").write_bytes(b"a\rb\n\r\n\x0b\x0c\xc2\x85\xe2\x80\xa8c\n")
    shown = "     1\ta\rb\n     2\t\n     3\t\x0b\x0c\x85\u2028c"
    assert here.read("f") == f"{shown}\n[1 of these lines end in CRLF, the others in LF]"


def test_offset_and_limit(here: Machine) -> None:
    (here.directory / "f").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    middle = here.read("f", offset=4, limit=2)
    assert middle == "     4\tline 4\n     5\tline 5\n[more lines follow; continue with offset 6]"
    end = "[end of the file: 10 lines]"
    assert here.read("f", offset=9, limit=2) == f"     9\tline 9\n    10\tline 10\n{end}"
    assert here.read("f", offset=10) == f"    10\tline 10\n{end}"
    assert window(here.read("f", limit=1)) == ([(1, "line 1")], 2)
    assert window(here.read("f", limit=10**12)) == ([(number, f"line {number}") for number in range(1, 11)], None)


def test_two_thousand_lines_unless_told_otherwise(here: Machine) -> None:
    (here.directory / "f").write_text("x\n" * 2001)
    lines, following = window(here.read("f"))
    assert (len(lines), following) == (DEFAULT_LINES, 2001) == (2000, 2001)
    (here.directory / "f").write_text("x\n" * 2000)
    lines, following = window(here.read("f"))
    assert (len(lines), following) == (2000, None)


def test_a_number_over_a_million_keeps_its_digits(here: Machine) -> None:
    (here.directory / "f").write_text("\n" * 1_000_000 + "end")
    assert here.read("f", offset=1_000_001) == "1000001\tend\n[end of the file: 1000001 lines]"


@given(
    lines=st.lists(
        st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20),
        min_size=1,
        max_size=30,
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    ended=st.booleans(),
    limit=st.integers(1, 40),
    most=st.sampled_from([1, 30, 100, MAX_BYTES]),
    piece=st.sampled_from([1, 2, 7, 50, PIECE_BYTES]),
)
def test_windows_put_together_are_the_file(
    shared: Machine, lines: list[str], end: str, ended: bool, limit: int, most: int, piece: int
) -> None:
    # An empty last line without an end is no line.
    content = end.join(lines) + (end if ended or not lines[-1] else "")
    file = shared.directory / "tiled"
    file.write_bytes(content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "MAX_BYTES", most)
        patch.setattr(stream, "PIECE_BYTES", piece)
        assert tiles(shared, file, limit=limit) == list(enumerate(lines, 1))
        beyond = len(lines) + limit
        assert shared.read(file, offset=beyond + 1) == f"[no line {beyond + 1}: the file has {len(lines)} lines]"


def test_the_byte_cap_tells_where_to_go_on(here: Machine) -> None:
    file = here.directory / "f"
    line = "y" * 1000
    file.write_text(f"{line}\n" * 1000)
    shown = here.read("f")
    assert 256 * 1024 <= len(shown) < 256 * 1024 + 2000
    assert window(shown)[1] is not None
    assert tiles(here, file) == [(number, line) for number in range(1, 1001)]


@pytest.mark.parametrize("line", ["🙂".encode() * 250, b"\xff" * 1000])
def test_the_byte_cap_is_of_bytes(here: Machine, line: bytes) -> None:
    (here.directory / "f").write_bytes((line + b"\n") * 2000)
    assert len(here.read("f").encode()) < MAX_BYTES + 4000


def test_the_cap_still_gives_one_line(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_BYTES", 1)
    (here.directory / "f").write_text("long\nlonger\n")
    assert window(here.read("f")) == ([(1, "long")], 2)


def test_an_empty_file(here: Machine) -> None:
    (here.directory / "f").touch()
    assert here.read("f") == f"[empty file: {here.directory / 'f'}]"
    assert here.read("f", offset=7) == f"[empty file: {here.directory / 'f'}]"


@pytest.mark.parametrize("content", ["a\nb\nc\n", "a\nb\nc"])
def test_past_the_end(here: Machine, content: str) -> None:
    (here.directory / "f").write_text(content)
    assert here.read("f", offset=4) == "[no line 4: the file has 3 lines]"
    assert here.read("f", offset=10**30) == f"[no line {10**30}: the file has 3 lines]"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("over", [-1, 0, 1, 2, 16_000, MAX_LINE_LENGTH, 3 * MAX_LINE_LENGTH + 5])
def test_a_long_line_is_cut_and_told(here: Machine, over: int, end: bytes) -> None:
    (here.directory / "f").write_bytes(b"before\n" + b"z" * (MAX_LINE_LENGTH + over) + (end and end + b"after" + end))
    note = f" [line cut after {MAX_LINE_LENGTH} bytes]" if over > 0 else ""
    shown = "z" * min(MAX_LINE_LENGTH, MAX_LINE_LENGTH + over) + note
    assert window(here.read("f")) == ([(1, "before"), (2, shown), *([(3, "after")] if end else [])], None)


def test_a_file_of_one_line_is_not_held_whole(here: Machine) -> None:
    file = here.directory / "f"
    with file.open("wb") as out:
        out.write(b"q" * SAMPLE_BYTES)
        out.truncate(200_000_000)
    shown = here.read("f")
    assert len(shown) < MAX_LINE_LENGTH + 100
    assert shown.endswith(f" [line cut after {MAX_LINE_LENGTH} bytes]")


def test_a_cut_beside_a_carriage_return_is_told_too(here: Machine) -> None:
    (here.directory / "f").write_bytes(b"z" * MAX_LINE_LENGTH + b"\r" + b"more" * 10 + b"\n")
    assert "[line cut" in here.read("f")


def test_the_cut_of_a_long_line_spares_characters(here: Machine) -> None:
    (here.directory / "f").write_bytes(b"z" * (MAX_LINE_LENGTH - 1) + "é".encode() * 10)
    assert "\ufffd" not in here.read("f")


def test_invalid_utf8_is_replaced(here: Machine) -> None:
    """What is UTF-8 for the most part is UTF-8 with damage."""
    (here.directory / "f").write_bytes(b"caf\xe9 \xff\nna\xc3\xafve \xc3\xbc\n")
    note = "[1 of these lines has bytes that do not decode, shown as \ufffd]"
    assert here.read("f") == f"     1\tcaf\ufffd \ufffd\n     2\tnaïve ü\n{note}"


def test_a_replacement_character_of_the_files_own_is_no_damage(here: Machine) -> None:
    (here.directory / "f").write_text("one \ufffd\n")
    assert here.read("f") == "     1\tone \ufffd"
    (here.directory / "f").write_bytes("é \ufffd\n".encode() + b"\xff \xff\n\xff\n" + "ééé".encode())
    assert here.read("f").endswith("[2 of these lines have bytes that do not decode, shown as \ufffd]")


def test_a_link_that_leads_nowhere(here: Machine) -> None:
    (here.directory / "lost").symlink_to("no\nwhere")
    assert refused(here, "lost").endswith("no such file or directory (a symbolic link to $'no\\x0awhere')")


@pytest.mark.parametrize("at", [0, 100, 8191])
def test_binary(here: Machine, at: int) -> None:
    (here.directory / "f").write_bytes(b"a" * at + b"\0\1\2" * 1000)
    shown = here.read("f")
    beginning = (b"a" * at + b"\0\1\2" * 1000)[:64].hex(" ")
    assert shown == (
        f"[binary file {here.directory / 'f'}: application/octet-stream, {at + 3000} bytes; it begins {beginning}]"
    )


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (Path(sys.executable).resolve().read_bytes()[:4096], "application/x-"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
    ],
)
def test_a_binary_files_kind_is_told(here: Machine, content: bytes, mime: str) -> None:
    (here.directory / "f").write_bytes(content)
    assert f": {mime}" in here.read("f")


IMAGES = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "gif": b"GIF89a\1\0\1\0\0\0\0",
    "webp": b"RIFF\x24\0\0\0WEBPVP8 \0\0\0\0",
}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_is_shown(here: Machine, kind: str) -> None:
    """By what it is, whatever it is called."""
    content = IMAGES[kind] + bytes(range(256)) * 1000
    (here.directory / "f.txt").write_bytes(content)
    (block,) = here.run(here.host.call("read", {"path": "f.txt"}, CALL)).content
    assert isinstance(block, Image)
    assert block.mime_type == f"image/{kind}"
    assert base64.b64decode(block.data) == content


def test_an_image_that_is_too_large(here: Machine) -> None:
    room = MAX_IMAGE_BASE64 // 4 * 3
    (here.directory / "f").write_bytes(IMAGES["png"])
    os.truncate(here.directory / "f", room)
    (block,) = here.run(here.host.call("read", {"path": "f"}, CALL)).content
    assert isinstance(block, Image)
    assert len(block.data) == MAX_IMAGE_BASE64
    os.truncate(here.directory / "f", room + 1)
    words = refused(here, "f")
    assert f"image/png of {room + 1} bytes; at most {room} can be sent" in words


MARKS = {
    "utf-8": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}


@pytest.mark.parametrize("codec", MARKS)
def test_a_byte_order_mark_tells_the_encoding(here: Machine, codec: str) -> None:
    """And is no part of the first line."""
    lines = ["Grüße, 世界 🙂", "", "\u0a0a \u0d0a\u0a0d", "last"]
    (here.directory / "f").write_bytes(MARKS[codec] + "\r\n".join(lines).encode(codec))
    shown = here.read("f")
    assert window(shown) == (list(enumerate(lines, 1)), None)
    assert shown.endswith(f"[encoding {codec.upper()} with BOM; lines end in CRLF]")
    assert tiles(here, here.directory / "f", limit=1) == list(enumerate(lines, 1))
    assert window(here.read("f", offset=-2))[0] == [(-2, lines[2]), (-1, lines[3])]
    assert window(here.read("f", offset=-9))[0] == list(enumerate(lines, -4))


@pytest.mark.parametrize("codec", MARKS)
def test_only_a_byte_order_mark(here: Machine, codec: str) -> None:
    (here.directory / "f").write_bytes(MARKS[codec])
    for offset in (1, 3, -1):
        assert here.read("f", offset=offset) == f"[empty file: {here.directory / 'f'}]"


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("gb18030", "你好,世界。这是一个测试文件。"),
        ("cp1251", "Привет, мир. Это проверка."),
        ("cp932", "これはテストです。日本語の文章。"),
        ("big5hkscs", "這是一個測試檔案,內容是繁體中文。"),
        ("cp1252", "“Smart quotes” — naïve façade…"),
        ("utf-16-le", "plain words without a mark"),
    ],
)
def test_other_encodings_are_detected_and_told(here: Machine, codec: str, text: str) -> None:
    (here.directory / "f").write_bytes("\n".join([text] * 3).encode(codec))
    shown = here.read("f")
    assert window(shown)[0] == [(number, text) for number in (1, 2, 3)]
    assert shown.endswith(f"[encoding {codec.upper()} (a guess)]")


def test_a_long_line_of_wide_characters_is_cut_between_them(here: Machine) -> None:
    for codec in ("utf-16-le", "gb18030"):
        mark = MARKS.get(codec, b"")
        (here.directory / "f").write_bytes(mark + ("a" + "你好世界" * 10_000 + "\nafter").encode(codec))
        (_, long), (_, after) = window(here.read("f"))[0]
        content, _, note = long.partition(" [line cut")
        assert note
        assert content.strip("a你好世界") == ""
        assert after == "after"


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n\0", codec="utf-8"), max_size=8), max_size=20),
    ended=st.booleans(),
    offset=st.integers(1, 25),
    piece=st.sampled_from([1, 3, 8, PIECE_BYTES]),
    codec=st.sampled_from(["", *MARKS]),
)
def test_from_the_end(shared: Machine, lines: list[str], ended: bool, offset: int, piece: int, codec: str) -> None:
    content = "\n".join(lines) + ("\n" if ended and lines else "")
    whole = content.split("\n")
    if whole[-1] == "":
        whole.pop()
    file = shared.directory / "tail"
    encode_text = content.encode(codec or "utf-8")
    file.write_bytes(MARKS[codec] + encode_text if codec else encode_text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "PIECE_BYTES", piece)
        shown = shared.read(file, offset=-offset)
    expected = [line.removesuffix("\r") for line in whole[-offset:]]
    if not whole:
        assert shown == f"[empty file: {file}]"
    elif codec or content.encode()[:3] != MARKS["utf-8"]:
        assert window(shown)[0] == list(enumerate(expected, -len(expected)))


def test_the_last_lines_of_a_large_file_are_read_from_behind(here: Machine) -> None:
    """A hole of a tebibyte before them would take minutes to pass."""
    file = here.directory / "f"
    file.write_bytes(b"text\n" * SAMPLE_BYTES)
    with file.open("r+b") as out:
        out.seek(1 << 40)
        out.write(b"\n" + b"".join(b"line %d\n" % number for number in range(100_000)))
    shown, following = window(here.read("f", offset=-50_000, limit=2))
    assert shown == [(-50_000, "line 50000"), (-49_999, "line 50001")]
    assert following == -49_998
    assert here.read("f", offset=-1) == "    -1\tline 99999"


def test_a_file_that_grows_meanwhile(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the end, its lines are those that it had when it was opened; forward, as far as it goes then."""
    file = here.directory / "f"

    class Growing(stream.LineReader):
        def _fill(self) -> bool:
            with file.open("ab") as out:
                out.write(b"more\n")
            return super()._fill()

    monkeypatch.setattr(read, "LineReader", Growing)
    file.write_bytes(b"one\ntwo\n")
    assert here.read("f", offset=-1) == "    -1\ttwo"
    file.write_bytes(b"one\ntwo\n")
    assert window(here.read("f"))[0][:3] == [(1, "one"), (2, "two"), (3, "more")]


@linux
def test_the_last_lines_of_a_file_whose_size_is_not_known(here: Machine) -> None:
    last = Path("/proc/self/status").read_text().splitlines()[-2].split(":")[0]
    (number, line), _ = window(here.read("/proc/self/status", offset=-2))[0]
    assert (number, line.split(":")[0]) == (-2, last)


def test_offset_zero_is_no_line(here: Machine) -> None:
    (here.directory / "f").touch()
    assert refused(here, "f", offset=0).endswith("offset 0 is no line; the first is 1, the last is -1")


def test_a_directory(here: Machine) -> None:
    (here.directory / "d").mkdir()
    (here.directory / "d" / "not shown").touch()
    (here.directory / "b").write_bytes(b"12345")
    (here.directory / "a").touch()
    (here.directory / ".hidden").touch()
    (here.directory / "link").symlink_to("d")
    (here.directory / "lost").symlink_to("nowhere")
    os.mkfifo(here.directory / "pipe")
    list_entries = [".hidden  0 bytes", "a  0 bytes", "b  5 bytes", "d/", "link -> d  (symbolic link)"]
    assert here.read(".") == "\n".join([*list_entries, "lost -> nowhere  (symbolic link)", "pipe  (FIFO)"])
    assert here.read("link") == "not shown  0 bytes"


def test_an_empty_directory(here: Machine) -> None:
    assert here.read(".") == f"[empty directory: {here.directory}]"


def test_entries_are_in_the_order_of_their_names(here: Machine) -> None:
    (here.directory / "a").mkdir()
    for name in ("a b", "a-b", "a.b"):
        (here.directory / name).touch()
    assert here.read(".").split("\n") == ["a/", "a b  0 bytes", "a-b  0 bytes", "a.b  0 bytes"]


def test_a_large_directory_is_bounded(here: Machine) -> None:
    for number in range(3000):
        (here.directory / f"{number:0200}").touch()
    assert len(here.read(".")) < MAX_BYTES + 4000


def test_entries_in_windows(here: Machine) -> None:
    for number in range(5):
        (here.directory / f"f{number}").touch()
    assert here.read(".", limit=2) == "f0  0 bytes\nf1  0 bytes\n[3 more entries; continue with offset 3]"
    assert here.read(".", offset=4) == "f3  0 bytes\nf4  0 bytes"
    assert here.read(".", offset=-1) == "f4  0 bytes"
    assert here.read(".", offset=6) == "[no entry 6: the directory has 5]"
    assert here.read(".", offset=-9, limit=1).startswith("f0  0 bytes\n[4 more entries; continue with offset 2]")


@linux
def test_odd_names_are_shown_as_a_shell_takes_them(here: Machine) -> None:
    for name in (b"bad\xff", b"two\nlines", b"it's\ttabbed", "é 🙂".encode(), b"back\\slash", b"-r"):
        Path(os.fsdecode(os.fsencode(here.directory) + b"/" + name)).touch()
    shown = here.read(".")
    assert msgspec.json.encode(shown)
    names = [line.removesuffix("  0 bytes") for line in shown.split("\n")]
    assert names == ["-r", "back\\slash", "$'bad\\xff'", "$'it\\'s\\x09tabbed'", "$'two\\x0alines'", "é 🙂"]
    for quoted in (each for each in names if each.startswith("$")):
        assert not here.bash(f"test -e {quoted}").is_error, quoted
        assert here.read(f"./{quoted}").startswith("[empty file: "), "and so does the tool itself"


def test_missing(here: Machine) -> None:
    (here.directory / "lost").symlink_to("nowhere")
    assert refused(here, "no/such") == f"{here.directory}/no/such: no such file or directory"
    assert "no such file or directory" in refused(here, "lost")


def test_below_a_file(here: Machine) -> None:
    (here.directory / "f").touch()
    assert refused(here, "f/x") == f"{here.directory}/f/x: Not a directory"


def test_a_name_that_is_too_long(here: Machine) -> None:
    assert "File name too long" in refused(here, "x" * 5000)


def test_a_loop_of_links(here: Machine) -> None:
    (here.directory / "loop").symlink_to("loop")
    refused(here, "loop")


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_unreadable(here: Machine, kind: str) -> None:
    path = here.directory / "closed"
    path.mkdir() if kind == "directory" else path.touch()
    path.chmod(0)
    with as_nobody():
        assert refused(here, "closed") == f"{path}: permission denied"
    path.chmod(0o700)


def test_a_fifo_is_refused_at_once(here: Machine) -> None:
    os.mkfifo(here.directory / "pipe")
    with pytest.raises(ToolError, match="pipe: not a regular file but a FIFO; it was not opened"):
        here.run(asyncio.wait_for(here.host.call("read", {"path": "pipe"}, CALL), 10))


def test_a_fifo_is_not_opened(here: Machine) -> None:
    """A writer that waits for a reader goes on waiting."""
    os.mkfifo(here.directory / "pipe")
    (here.directory / "link").symlink_to("pipe")
    opened = threading.Event()

    def write() -> None:
        os.close(os.open(here.directory / "pipe", os.O_WRONLY))
        opened.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        refused(here, "pipe")
        refused(here, "link")
        assert not opened.is_set()
    finally:
        os.close(os.open(here.directory / "pipe", os.O_RDONLY))
        writer.join()


def test_a_file_that_turns_into_a_fifo(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at it and its opening."""
    path = here.directory / "f"
    path.touch()
    stat = os.stat

    def look(given: Any, **options: Any) -> os.stat_result:
        found = stat(given, **options)
        if given == path:
            path.unlink()
            os.mkfifo(path)
        return found

    monkeypatch.setattr(os, "stat", look)
    try:
        with pytest.raises(ToolError, match="not a regular file but a FIFO"):
            here.run(asyncio.wait_for(here.host.call("read", {"path": "f"}, CALL), 10))
    finally:
        monkeypatch.undo()
        with contextlib.suppress(OSError):  # nobody waits for a writer
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def test_a_socket(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here.directory)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s")
        assert "not a regular file but a socket" in refused(here, "s")
        assert here.read(".") == "s  (socket)"


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_a_device(here: Machine, path: str) -> None:
    assert refused(here, path) == f"{path}: not a regular file but a character device; it was not opened (bash can)"


@linux
def test_a_file_whose_size_is_not_known(here: Machine) -> None:
    assert os.stat("/proc/self/status").st_size == 0
    lines, following = window(here.read("/proc/self/status"))
    assert following is None
    assert f"Pid:\t{os.getpid()}" in [line for _, line in lines]


@linux
def test_a_file_that_opens_but_cannot_be_read(here: Machine) -> None:
    """The kernel refuses the read itself, to root too: no address of this process is at 0."""
    assert refused(here, "/proc/self/mem") == "/proc/self/mem: Input/output error"


def test_where_paths_start(here: Machine, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(elsewhere))
    (here.directory / "sub").mkdir()
    (here.directory / "f").write_text("in the host's directory")
    (elsewhere / "f").write_text("at home")
    assert here.read("f") == here.read("./f") == here.read("sub/../f") == "     1\tin the host's directory"
    assert here.read("~/f") == here.read(elsewhere / "f") == "     1\tat home"
    assert here.read("~") == "f  7 bytes"


def test_a_name_that_begins_with_a_tilde(here: Machine) -> None:
    (here.directory / "~root").write_text("no home")
    assert here.read("./~root") == here.read(here.directory / "~root") == "     1\tno home"


def test_nobodys_home(here: Machine) -> None:
    with pytest.raises(ToolError, match="'~no-such-user/f': there is no such user's home directory"):
        here.read("~no-such-user/f")


def test_nul_in_the_path(here: Machine) -> None:
    with pytest.raises(ToolError, match=r"path 'a\\x00b' holds a NUL character"):
        here.read("a\0b")


def test_a_path_that_is_no_utf8(here: Machine) -> None:
    with pytest.raises(ToolError):
        here.read("a\ud800b")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `path`"),
        ({"path": 5}, "Expected `str`, got `int` - at `$.path`"),
        ({"path": "f", "offset": "1"}, "Expected `int`, got `str` - at `$.offset`"),
        ({"path": "f", "offset": None}, "at `$.offset`"),
        ({"path": "f", "limit": 0}, "`int` >= 1 - at `$.limit`"),
        ({"path": "f", "limit": True}, "at `$.limit`"),
        ({"path": "f", "line": 1}, "unknown field `line`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_wrong_arguments_are_named(here: Machine, arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(here.host.call("read", arguments, CALL))
    assert str(caught.value).startswith("invalid arguments for read: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("line", [b"x\n", b"x"])
def test_a_cancelled_read_stops_working(here: Machine, line: bytes) -> None:
    """Of a file that takes hours: in its many lines, or in its one. The thread ends, since the pool is closed."""
    file = here.directory / "huge"
    if line.endswith(b"\n"):
        file.write_bytes(line * 5_000_000)
        os.truncate(file, 1 << 40)
    else:
        file.write_bytes(line * SAMPLE_BYTES)
        os.truncate(file, 1 << 40)
    before = set(threading.enumerate())

    def new() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one not in before and one.name.startswith("a2a-local")]

    async def cancel() -> None:
        reading = asyncio.create_task(here.host.call("read", {"path": "huge", "offset": 10**9}, CALL))
        await soon(lambda: bool(new()), "a thread reads")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await here.host.close()
        await soon(lambda: not new(), "the thread has ended")

    try:
        here.run(cancel())
    finally:
        os.truncate(file, 0)  # ends the thread if nothing else did


@pytest.mark.parametrize(
    "count",
    [
        3,
        4,
    ],
)
def test_reads_do_not_wait_for_one_another(here: Machine, count: int) -> None:
    """While some reads go on for ever, others are answered."""
    (here.directory / "f").write_text("quick")
    (here.directory / "huge").write_bytes(b"x" * SAMPLE_BYTES)
    os.truncate(here.directory / "huge", 1 << 40)

    async def work() -> None:
        slow = [asyncio.create_task(here.host.call("read", {"path": "huge"}, CALL)) for _ in range(count)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(5):
                await here.host.call("read", {"path": "f"}, CALL)
            assert not any(task.done() for task in slow)
        finally:
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    try:
        here.run(work())
    finally:
        os.truncate(here.directory / "huge", 0)


def test_after_the_end_the_host_is_gone(here: Machine) -> None:
    here.run(here.host.close())
    with pytest.raises(ToolError):
        here.read(".")
