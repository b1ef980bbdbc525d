"""What a file holds, judged by its beginning: text in some encoding, or something else."""

import codecs
from dataclasses import dataclass

# Detection looks at this much of a file's beginning, and so does every tool: they must agree.
SAMPLE_BYTES = 64 * 1024

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Encoding:
    """A text file's encoding: Python's `codec`, the byte order mark it begins with, and whether it was only guessed."""

    codec: str
    mark: bytes = b""
    guessed: bool = False

    @property
    def wide(self) -> bool:
        """Whether a line feed is more than one byte in it."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def __str__(self) -> str:
        return self.codec.upper() + (" with BOM" if self.mark else "") + (" (a guess)" if self.guessed else "")


@dataclass(frozen=True)
class Binary:
    """No text. `mime` is the media type where the beginning tells, else application/octet-stream."""

    mime: str


UTF8 = Encoding("utf-8")


def detect_encoding(sample: bytes) -> Encoding | Binary:
    """Judge a file by its first `SAMPLE_BYTES` (by all of it when it has fewer).

    A byte order mark decides. Then: valid UTF-8 is UTF-8; what has more characters of UTF-8 than bytes
    that do not belong is UTF-8 with damage; anything else is what the detector says.
    """
    for mark, codec in _MARKS:
        if sample.startswith(mark):
            return Encoding(codec, mark)
    characters, strays = _as_utf8(sample)
    if strays == 0 and b"\0" not in sample:
        return UTF8
    found = _detect(sample)
    if isinstance(found, Binary) or found.wide:
        return found
    return UTF8 if characters >= strays else found


def _as_utf8(sample: bytes) -> tuple[int, int]:
    """Taken for UTF-8: how many characters beyond ASCII it has, and how many bytes that belong to none."""
    if sample.isascii():
        return 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text = decoder.decode(sample, final=len(sample) < SAMPLE_BYTES)
    strays = sum("\udc80" <= character <= "\udcff" for character in text)
    return sum(character > "\x7f" for character in text) - strays, strays


def _detect(sample: bytes) -> Encoding | Binary:
    import chardet  # heavy, and most files need none of it

    found = chardet.detect(
        sample,
        encoding_era=chardet.EncodingEra.MODERN_WEB,
        max_bytes=SAMPLE_BYTES,
        prefer_superset=True,
        compat_names=False,
    )
    if found["encoding"] is None:
        return Binary(found["mime_type"] or "application/octet-stream")
    return Encoding(found["encoding"], guessed=True)
