"""Which calls are the same: the tool, the arguments to the last character, the directory, and who asks."""

import hashlib
import json

from a2a_bridge.errors import ToolError
from a2a_bridge.tool import Access, Call

Fingerprint = bytes


def fingerprint(call: Call, tool: str, arguments: object, access: Access) -> Fingerprint:
    """SHA-256 over a canonical form. A caller that gave no name is known by its session alone. Raises ToolError."""
    borrower = ["client", call.client] if call.client else ["session", call.session]
    return hashlib.sha256(canonical([tool, arguments, access.directory, borrower])).digest()


def canonical(value: object) -> bytes:
    """The same bytes for the same value, and other bytes for any other. Raises ToolError."""
    return _json(value, sort_keys=True).encode()


def written(value: object) -> bytes:
    """The whole value as JSON, its members in their order. Raises ToolError."""
    return _json(value, sort_keys=False).encode()


def characters(value: object) -> int:
    """How many the value has as JSON in which each stands for itself. Raises ToolError."""
    return len(_json(value, sort_keys=False, ensure_ascii=False))


def _json(value: object, sort_keys: bool, ensure_ascii: bool = True) -> str:
    """The standard library's JSON, which has a form for infinity (`1e999`) too; to msgspec it would be null."""
    try:
        return json.dumps(value, sort_keys=sort_keys, ensure_ascii=ensure_ascii, separators=(",", ":"), default=repr)
    except RecursionError:
        raise ToolError("the arguments are nested too deep for a person to be asked about them") from None
