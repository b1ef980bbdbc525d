"""A text file's bytes as text, and back. A file whose bytes would not come back the same is refused."""

import unicodedata
from collections.abc import Callable, Iterable

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.encoding import (
    SAMPLE_BYTES,
    UTF8,
    Binary,
    Encoding,
    detect_encoding,
    encodings_alike,
)

# Larger files are not edited: their text is held in memory several times.
MAX_BYTES = 128 * 1024 * 1024


def decode_text(data: bytes) -> tuple[Encoding, str]:
    """The encoding, and the text without the byte order mark. Bytes that do not decode become surrogates.

    Raises ToolError for a binary file, and for one that could not be written back unchanged.
    """
    encoding = detect_encoding(data[:SAMPLE_BYTES])
    if isinstance(encoding, Binary):
        raise ToolError(f"it is not text ({encoding.mime}); use bash")
    body = data[len(encoding.mark) :]
    try:
        content = body.decode(encoding.codec, _errors(encoding))
        same = encoding.codec == UTF8.codec or content.encode(encoding.codec, _errors(encoding)) == body
    except UnicodeDecodeError as error:
        at = len(encoding.mark) + error.start
        raise ToolError(f"it is {encoding}, but its byte {at} (from 0) does not decode; use bash") from None
    except (UnicodeEncodeError, LookupError):
        same = False
    if not same:
        raise ToolError(f"its bytes change when they are read and written as {encoding}; use bash")
    return encoding, content


def encode_text(content: str, encoding: Encoding) -> bytes:
    """The file's new bytes. Raises ToolError when they would not decode to `content`."""
    try:
        body = content.encode(encoding.codec, _errors(encoding))
        same = encoding.codec == UTF8.codec or body.decode(encoding.codec, _errors(encoding)) == content
    except UnicodeError:
        same = False
    if not same:
        raise ToolError(
            f"the result would be another text when it is read as {encoding}, next to bytes that do not decode; "
            "use bash"
        )
    return encoding.mark + body


def encoding_for(texts: Iterable[str], encoding: Encoding, read: Callable[[], bytes]) -> Encoding:
    """An encoding that can write `texts` into the file whose content `read` gives.

    That is the file's own, or, where that was guessed, another in which the file reads the same.
    Raises ToolError that names a character which no such encoding has.
    """
    if encoding.codec == UTF8.codec:
        return encoding
    texts = list(texts)
    character = _first_unwritable(texts, encoding.codec)
    if character is None:
        return encoding
    if encoding.guessed:
        for codec in encodings_alike(read(), encoding.codec):
            if _first_unwritable(texts, codec) is None:
                return Encoding(codec, guessed=True)
    name = unicodedata.name(character, "a character")
    raise ToolError(f"the file is {encoding}, which cannot write {name} (U+{ord(character):04X})")


def _first_unwritable(texts: list[str], codec: str) -> str | None:
    for text in texts:
        try:
            text.encode(codec)
        except UnicodeEncodeError as error:
            return text[error.start]
    return None


def _errors(encoding: Encoding) -> str:
    return "strict" if encoding.wide else "surrogateescape"
