"""Whether a file is text, and in which encoding, judged by its first bytes. docs/tools.md has the decision table."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Every tool judges by this much of a file's beginning, so that all of them agree.
SAMPLE_BYTES = 64 * 1024

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without a byte order mark: which bytes of each character are zero in a text that is mostly Latin.
_ZERO_BYTES = {"utf-16-le": (2, (1,)), "utf-16-be": (2, (0,)), "utf-32-le": (4, (1, 2, 3)), "utf-32-be": (4, (0, 1, 2))}
_MIN_ZERO_SHARE = 0.7
# Fewer characters than this prove nothing: binary files begin with small numbers, too.
_MIN_WIDE_CHARACTERS = 8

# Single-byte encodings, the commonest first. Many texts decode alike in several of them.
COMMON_ENCODINGS = ("cp1252", "cp1250", "cp1251", "cp1254", "cp1257", "cp1253")
_NON_LATIN = {"cp1251", "cp1253", "cp1255", "cp1256", "cp874", "koi8-r", "koi8-u", "mac-cyrillic"}
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_WITHIN_LATIN_WORD = re.compile(rb"[A-Za-z][\x80-\xff](?![\x80-\xff])|(?<![\x80-\xff])[\x80-\xff][A-Za-z]")

# Characters that no text has, in an encoding that was only guessed. ESC, BS and FF are in logs and manuals.
_NOT_TEXT = re.compile("[\0-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")
_MAX_NOT_TEXT_SHARE = 0.02
_WHITE_SPACE = str.maketrans("", "", "\t\n\r\f\ufeff")


@dataclass(frozen=True)
class Encoding:
    """A text file's encoding: Python's `codec`, the byte order mark it begins with, and whether it was only guessed."""

    codec: str
    mark: bytes = b""
    guessed: bool = False

    @property
    def wide(self) -> bool:
        """Whether a line feed takes more than one byte."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def __str__(self) -> str:
        return self.codec.upper() + (" with BOM" if self.mark else "") + (" (a guess)" if self.guessed else "")


@dataclass(frozen=True)
class Binary:
    """Not text. `mime` is the media type where the first bytes show it, else application/octet-stream."""

    mime: str


UTF8 = Encoding("utf-8")


def detect_encoding(sample: bytes) -> Encoding | Binary:
    """Judge a file by its first `SAMPLE_BYTES`, or by all of it when it has fewer."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if sample.startswith(mark):
            found = Encoding(codec, mark)
            return found if not found.wide or _is_marked_text(sample, found) else _guess(sample)
    if b"\0" in sample:
        return _wide_without_mark(sample) or _binary(sample)
    characters, invalid = _count_utf8(sample)
    return UTF8 if characters >= invalid else _guess(sample)


def _is_marked_text(sample: bytes, found: Encoding) -> bool:
    """Whether text follows the mark. Binary files may begin with the same two bytes."""
    return "\0" not in _decode_beginning(sample[len(found.mark) :], found.codec, "replace")


def _wide_without_mark(sample: bytes) -> Encoding | None:
    """UTF-16 or UTF-32, if the zero bytes are where they belong, all characters are printable, and lines end."""
    for codec, (width, zeros) in _ZERO_BYTES.items():
        count = len(sample) // width
        if len(sample) % width or count < _MIN_WIDE_CHARACTERS:
            continue
        if any(sample[at::width].count(0) < count * _MIN_ZERO_SHARE for at in zeros):
            continue
        try:
            text = _decode_beginning(sample, codec, "strict")
        except UnicodeDecodeError:
            continue
        if "\n" in text and text.translate(_WHITE_SPACE).isprintable():
            return Encoding(codec, guessed=True)
    return None


def _decode_beginning(sample: bytes, codec: str, errors: str) -> str:
    """The text of a sample. A sample that is cut may end within a character."""
    return codecs.getincrementaldecoder(codec)(errors).decode(sample, final=len(sample) < SAMPLE_BYTES)


def _count_utf8(sample: bytes) -> tuple[int, int]:
    """Read as UTF-8: the number of characters beyond ASCII, and of bytes that belong to no character."""
    if sample.isascii():
        return 0, 0
    text = _decode_beginning(sample, "utf-8", "surrogateescape")
    invalid = sum("\udc80" <= character <= "\udcff" for character in text)
    return sum(character > "\x7f" for character in text) - invalid, invalid


def _guess(sample: bytes) -> Encoding | Binary:
    codec, _ = _detector(sample)
    if codec is None or codec.startswith(("utf-16", "utf-32")):
        return _binary(sample)
    if codec in _NON_LATIN and _is_latin(sample):
        codec = COMMON_ENCODINGS[0]
    codec = next(encodings_alike(sample, codec), codec)
    try:
        text = _decode_beginning(sample, codec, "replace")
    except LookupError:  # Python does not have it
        return _binary(sample)
    if len(_NOT_TEXT.findall(text)) > len(text) * _MAX_NOT_TEXT_SHARE:
        return _binary(sample)
    return Encoding(codec, guessed=True)


def encodings_alike(data: bytes, codec: str) -> Iterator[str]:
    """The common single-byte encodings that decode all of `data` to the same text as `codec`, the commonest first."""
    if codec not in COMMON_ENCODINGS:
        return
    text = data.decode(codec, "surrogateescape")
    yield from (common for common in COMMON_ENCODINGS if data.decode(common, "surrogateescape") == text)


def _is_latin(sample: bytes) -> bool:
    """Whether most characters beyond ASCII are single letters in ASCII words, as in `café`. No other script is so."""
    return 2 * len(_WITHIN_LATIN_WORD.findall(sample)) > len(_HIGH_BYTES.findall(sample))


def _binary(sample: bytes) -> Binary:
    _, mime = _detector(sample)
    return Binary(mime if mime and not mime.startswith("text/") else "application/octet-stream")


def _detector(sample: bytes) -> tuple[str | None, str | None]:
    """The encoding, None for what is not text, and the media type."""
    import chardet  # takes 80 ms to load, and most files need none of it

    found = chardet.detect(
        sample,
        encoding_era=chardet.EncodingEra.MODERN_WEB,
        max_bytes=SAMPLE_BYTES,
        prefer_superset=True,
        compat_names=False,
    )
    return found["encoding"], found["mime_type"]
