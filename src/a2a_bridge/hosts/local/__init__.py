"""The standalone host: this machine's files and shell, with no agent on it."""

from a2a_bridge.hosts.local.host import LocalHost

__all__ = ["LocalHost"]
