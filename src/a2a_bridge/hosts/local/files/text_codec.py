"""A text file's bytes as text, and back: what does not decode is kept, or the file is refused."""

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES, UTF8, Binary, Encoding, detect_encoding


def decode_text(data: bytes) -> tuple[Encoding, str]:
    """The encoding, and the text without the byte order mark. Bytes that do not decode become surrogates."""
    encoding = detect_encoding(data[:SAMPLE_BYTES])
    if isinstance(encoding, Binary):
        raise ToolError(f"it is no text ({encoding.mime}); use bash")
    body = data[len(encoding.mark) :]
    try:
        content = body.decode(encoding.codec, _errors(encoding))
        survives = encoding.codec == UTF8.codec or content.encode(encoding.codec, _errors(encoding)) == body
    except UnicodeDecodeError as error:
        at = len(encoding.mark) + error.start
        raise ToolError(f"it is {encoding}, but its byte {at} (from 0) does not decode; use bash") from None
    except (UnicodeEncodeError, LookupError):
        survives = False
    if not survives:
        raise ToolError(f"its bytes do not survive being read and written as {encoding}; use bash")
    return encoding, content


def encode_text(content: str, encoding: Encoding) -> bytes:
    """The file's new bytes."""
    try:
        body = content.encode(encoding.codec, _errors(encoding))
        survives = encoding.codec == UTF8.codec or body.decode(encoding.codec, _errors(encoding)) == content
    except UnicodeError:
        survives = False
    if not survives:
        raise ToolError(
            f"the result would not read as it should in {encoding}: beside bytes that do not decode; use bash"
        )
    return encoding.mark + body


def _errors(encoding: Encoding) -> str:
    return "strict" if encoding.wide else "surrogateescape"
