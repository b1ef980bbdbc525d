"""How a command ended, in words."""

import signal


def ending(status: int | None, timeout: float | None) -> str:
    """Of an exit status (negative: by that signal; None: its time, `timeout` seconds, was up)."""
    if status is None:
        return f"timed out after {timeout or 0:g} s; the command and its processes were killed"
    if status < 0:
        return f"killed by {_signal_name(-status)}"
    return f"exit code {status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
