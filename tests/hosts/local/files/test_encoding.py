"""Text or binary, and in which encoding: each line of the decision table in docs/tools.md."""

import gzip
import marshal
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES, UTF8, Binary, Encoding, detect_encoding

ENGLISH = "some plain words\nand more of them\n"


def marked(mark: bytes, codec: str) -> bytes:
    return mark + ENGLISH.encode(codec)


@pytest.mark.parametrize(
    ("sample", "codec"),
    [
        (marked(b"\xef\xbb\xbf", "utf-8"), "utf-8"),
        (marked(b"\xff\xfe", "utf-16-le"), "utf-16-le"),
        (marked(b"\xfe\xff", "utf-16-be"), "utf-16-be"),
        (marked(b"\xff\xfe\0\0", "utf-32-le"), "utf-32-le"),
        (marked(b"\0\0\xfe\xff", "utf-32-be"), "utf-32-be"),
        (b"\xff\xfe" + "世界\n".encode("utf-16-le"), "utf-16-le"),
        (b"\xff\xfe" + "🙂".encode("utf-16-le") * SAMPLE_BYTES, "utf-16-le"),  # the sample ends within a character
    ],
)
def test_a_byte_order_mark_before_text(sample: bytes, codec: str) -> None:
    found = detect_encoding(sample[:SAMPLE_BYTES])
    assert isinstance(found, Encoding)
    assert (found.codec, found.guessed) == (codec, False)
    assert found.mark
    assert sample.startswith(found.mark)


def test_a_byte_order_mark_before_something_else() -> None:
    assert isinstance(detect_encoding(b"\xff\xfe" + bytes(range(32)) + bytes(8)), Binary)
    assert isinstance(detect_encoding(b"\xfe\xff" + struct.pack(">40H", *range(40))), Binary)


SMALL_BINARIES = {
    "printf": b"a\0b\0",
    "printf with a line end": b"a\0\n\0",
    "pyc": b"\xa7\r\r\n" + bytes(12) + marshal.dumps(compile("x = 1\n", "x", "exec")),
    "elf": b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQI", 3, 62, 1, 0, 64, 0, 0),
    "gzip of three bytes": gzip.compress(b"abc", mtime=0),
    "gzip's beginning": b"\x1f\x8b\x08",
    "shorts": struct.pack("<20H", *range(20)),
    "shorts with a line end": struct.pack("<20H", *range(5, 25)),
    "words": struct.pack("<20I", *range(20)),
    "names": b"/etc/passwd\0/etc/group\0",
    "odd length": ENGLISH.encode("utf-16-le") + b"\0",
    "no line end": "some plain words without an end".encode("utf-16-le"),
    "mostly other letters": "Привет\n".encode("utf-16-le") * 10,
    "one NUL": ENGLISH.encode() + b"\0",
    "a dictionary of bytes": bytes(range(1, 256)),
}


@pytest.mark.parametrize("name", SMALL_BINARIES)
def test_small_binaries_are_binary(name: str) -> None:
    assert isinstance(detect_encoding(SMALL_BINARIES[name]), Binary)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_text_without_a_mark(codec: str) -> None:
    for text in (ENGLISH, "a b c d\r\n", "naïve façade: 5 €\n", ENGLISH * SAMPLE_BYTES):
        assert detect_encoding(text.encode(codec)[:SAMPLE_BYTES]) == Encoding(codec, guessed=True)


@pytest.mark.parametrize(
    "sample",
    [b"", b"plain\n", "é 世界 🙂".encode(), b"\x1b[31mred\x1b[0m\n", b"\1\2\3", ("é" * SAMPLE_BYTES).encode()[1:]],
)
def test_valid_utf8_without_nul(sample: bytes) -> None:
    assert detect_encoding(sample[:SAMPLE_BYTES]) == UTF8


def test_mostly_valid_utf8() -> None:
    assert detect_encoding(b"caf\xe9 na\xc3\xafve\n") == UTF8


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("café\n", "cp1252"),  # CP1250 reads it alike; the commonest is taken
        ("café au lait, déjà vu", "cp1252"),  # as Cyrillic, its letters would stand within Latin words
        ("Příliš žluťoučký kůň úpěl ďábelské ódy\n", "cp1250"),
        ("Привет, мир. Это проверка.\n", "cp1251"),
        ("Καλημέρα κόσμε\n", "cp1253"),
        ("你好,世界。这是一个测试文件。\n", "gb18030"),
    ],
)
def test_other_text_is_guessed(text: str, codec: str) -> None:
    assert detect_encoding(text.encode(codec)) == Encoding(codec, guessed=True)


@given(st.binary(min_size=64, max_size=500).map(lambda data: data.replace(b"\0", b"\1") + b"\x80\1\2\3\4\5\6\7" * 20))
def test_what_has_control_characters_and_is_not_utf8_is_binary(sample: bytes) -> None:
    assert isinstance(detect_encoding(sample), Binary)
