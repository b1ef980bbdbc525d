"""The host omp: the tools of a running omp's Main session, through its own approvals."""

from a2a_bridge.hosts.omp.host import OmpHost

__all__ = ["OmpHost"]
