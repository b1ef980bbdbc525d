"""Headers → allowed or refused (rules A1 to A6). Reads nothing but its arguments and the token it holds."""

import hmac
import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

_BEARER = re.compile(rb"bearer[ \t]+(.+)", re.IGNORECASE | re.DOTALL)
_SHOWN_CHARACTERS = 6


def token_prefix(token: str) -> str:
    """The part of a token that may be shown (C6); of a short one, at most half."""
    return f"{token[: min(_SHOWN_CHARACTERS, len(token) // 2)]}…"


class Auth:
    """Holds the one token. `rotate` replaces it at once, for open connections too (A5)."""

    def __init__(self, token: str) -> None:
        self.rotate(token)

    def rotate(self, token: str) -> None:
        self.token = token
        self._expected = token.encode()
        self._usual = b"Bearer " + self._expected

    def allows(self, authorization: bytes | None) -> bool:
        """Whether the header's value carries the token (A2, A3)."""
        if authorization is None:
            return False
        if len(authorization) == len(self._usual) and hmac.compare_digest(authorization, self._usual):
            return True
        found = _BEARER.fullmatch(authorization)
        if found is None:
            return False
        given = found[1].rstrip(b" \t")
        return len(given) == len(self._expected) and hmac.compare_digest(given, self._expected)


class Origins:
    """Which web pages may ask (A6). `allowed` lists origins (`https://app.example:8443`) or bare hosts."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = frozenset(entry.lower().rstrip("/") for entry in allowed)

    def allows(self, origin: bytes) -> bool:
        """Whether the header's value is no web page, a loopback one, or a listed one."""
        text = origin.decode("latin-1").strip().lower()
        if not text.startswith(("http://", "https://")):
            return True
        try:
            host = urlsplit(text).hostname or ""
        except ValueError:
            return False
        return is_loopback(host) or text.rstrip("/") in self._allowed or host in self._allowed


def is_loopback(host: str) -> bool:
    """Whether a host, by name or number, is this machine's loopback."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
