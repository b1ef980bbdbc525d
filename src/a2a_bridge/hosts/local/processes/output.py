"""What a command writes, on its way to an answer: reduced to what counts, its middle left out, its whole kept."""

from a2a_bridge.hosts.local.processes.head_tail import Clip
from a2a_bridge.hosts.local.processes.output_files import Kept, Spool
from a2a_bridge.hosts.local.processes.terminal_output import Reducer


class Output:
    """One command's output, in bounded memory whatever comes.

    `told` is whether some answer named the file that holds all of it.
    """

    def __init__(self, kept: Kept) -> None:
        self._spool = Spool(kept)
        self._reducer = Reducer()
        self._clip = Clip()
        self._finished = False
        self.told = False

    def feed(self, piece: bytes) -> None:
        self._spool.write(piece)
        self._clip.feed(self._reducer.feed(piece))

    def take(self) -> str:
        """What has come since the last time, as text."""
        self._clip.feed(self._reducer.flush(self._finished))
        clip, self._clip = self._clip, Clip()
        self.told |= clip.missing > 0
        return clip.text(self._spool.where if clip.missing else "")

    def finish(self) -> None:
        """The command has ended."""
        self._finished = True
        self._spool.finish()

    def discard(self) -> None:
        """Give up what is kept of it."""
        self._spool.discard()
