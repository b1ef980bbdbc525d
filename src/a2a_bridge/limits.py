"""Bounds that an owner may set on calls: how many at once, how long, and how large a result. All off unless set."""

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.tool import Content, Image, Result, Text

# What is said of it comes on top of the limit.
_CUT = "\n[cut: {left} of {whole} bytes are left out; the limit is maxResultBytes, {most}. Ask for less at a time]"
_DROPPED = "[left out: an image of {whole} bytes ({mime}); the limit is maxResultBytes, {most}]"


class Limits(msgspec.Struct, frozen=True):
    """0 stands for no limit. `seconds` is the time that a call may run, `result_bytes` the size of its result's texts
    (in UTF-8) and images (in base64) together."""

    calls: int = 0
    session_calls: int = 0
    seconds: float = 0.0
    result_bytes: int = 0

    def too_many(self, calls: int, session_calls: int) -> str:
        """What to answer to one call too many; empty while it is none. Both counts include it."""
        for most, now, name, whose in (
            (self.calls, calls, "maxConcurrentCalls", "this bridge"),
            (self.session_calls, session_calls, "maxConcurrentCallsPerSession", "a session"),
        ):
            if most and now > most:
                return (
                    f"limit: {name}: {whose} may have {most} call{'' if most == 1 else 's'} in flight at once; "
                    "nothing ran, call again when one has ended"
                )
        return ""

    def overtime(self) -> ToolError:
        return ToolError(
            f"limit: callTimeout: the call was ended after {self.seconds:g} s; do less in one call, "
            "or put it into the background"
        )

    def within(self, result: Result) -> Result:
        """The result, its texts cut at a character and images left out whole where it is too large; each says so."""
        if not self.result_bytes or _weight(result.content) <= self.result_bytes:
            return result
        left, kept = self.result_bytes, list[Content]()
        for block in result.content:
            fitting = self._fitting(block, left)
            if fitting is block or isinstance(block, Text):  # an image that is left out leaves its room to the rest
                left -= min(left, _size(block))
            kept.append(fitting)
        return Result(tuple(kept), result.is_error)

    def _fitting(self, block: Content, left: int) -> Content:
        whole = _size(block)
        if whole <= left:
            return block
        if isinstance(block, Image):
            return Text(_DROPPED.format(whole=whole, mime=block.mime_type, most=self.result_bytes))
        kept = _bytes(block.text)[:left].decode(errors="ignore")
        return Text(kept + _CUT.format(left=whole - len(kept.encode()), whole=whole, most=self.result_bytes))


def _weight(content: tuple[Content, ...]) -> int:
    return sum(map(_size, content))


def _size(block: Content) -> int:
    if isinstance(block, Image):
        return len(block.data)
    return len(block.text) if block.text.isascii() else len(_bytes(block.text))


def _bytes(text: str) -> bytes:
    """As it will be sent: half a surrogate pair becomes U+FFFD there."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
