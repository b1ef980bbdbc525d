"""Every exception of the package, each with the number and the text that its reader gets.

BridgeError
├── Refusal            an HTTP request is answered with an error (status, code, message)
│   ├── ParseError     400  -32700
│   └── InvalidRequest 400  -32600
├── ToolError          a call is answered with `isError` and this text
│   ├── UnknownTool    … the same words for a denied name and for one that does not exist
│   ├── HostUnavailable
│   ├── Denied         … a rule or the owner said no
│   └── NoAnswer       … nobody approved it in time
├── Withdrawn          a call was cancelled before anything of it ran
├── ConfigError        a command ends with exit code 1; names the file, the field and what is expected
├── InstallError       a command ends with exit code 1; names the file and what to do with it
├── StartError         a command ends with exit code 1; the bridge cannot serve
├── ControlError       a command ends with exit code 1; no bridge, several, or one that does not answer
└── PeerError          the other end of a JSON-RPC link answered with an error, or is gone
"""

from typing import ClassVar


class BridgeError(Exception):
    """Base of all. Its text is written for the person or the peer that reads it."""

    exit_code: ClassVar[int] = 1


class Refusal(BridgeError):
    """A request is refused. The class carries what the peer gets (contract T7)."""

    status: ClassVar[int]
    code: ClassVar[int]
    message: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.message)


class ParseError(Refusal):
    """The body is not JSON (B1)."""

    status, code, message = 400, -32700, "parse error"


class InvalidRequest(Refusal):
    """The body is JSON, but no JSON-RPC 2.0 request (B2)."""

    status, code, message = 400, -32600, "invalid request"


class ToolError(BridgeError):
    """A tool says no or has failed. The text reaches the caller as it is (M5)."""


class UnknownTool(ToolError):
    """The name is not listed, or is denied; the caller cannot tell which (M6)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tool '{name}' is not exposed by this bridge")


class HostUnavailable(ToolError):
    """The host is gone, stopped or broken."""

    def __init__(self, why: str) -> None:
        super().__init__(f"host unavailable: {why}")


class Denied(ToolError):
    """A rule or the owner said no."""

    def __init__(self, why: str) -> None:
        super().__init__(f"denied: {why}")


class NoAnswer(ToolError):
    """The owner was asked and has not answered in time."""

    def __init__(self, seconds: float, grant_seconds: float) -> None:
        super().__init__(
            f"no answer: nobody approved this within {seconds:g} s; nothing ran. Ask the owner, and call again with "
            f"the same arguments: an approval that comes meanwhile holds for {grant_seconds:g} s"
        )


class Withdrawn(BridgeError):
    """A host's call was cancelled while it waited for a person's leave: nothing of it has run."""


class ConfigError(BridgeError):
    """The configuration cannot be used (C3)."""


class InstallError(BridgeError):
    """The extension cannot be put into omp's directory, or taken out of it."""


class StartError(BridgeError):
    """The bridge cannot start serving."""


class ControlError(BridgeError):
    """A command cannot reach the bridge it means."""


class PeerError(BridgeError):
    """A request over a JSON-RPC link failed. `code` is the JSON-RPC error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def described(error: BaseException) -> str:
    """A bug in one line, with where it comes from: for the owner's eyes, never for a peer's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}: {error}{where}".replace("\n", " ⏎ ")
