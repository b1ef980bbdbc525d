"""The terminal of `serve`, lent to a console: a process of its own, so that no slow terminal slows a call."""

import asyncio
import os
import subprocess
import sys


class Screen:
    """`taken` while a console has the terminal: nothing else may write to it then."""

    def __init__(self, wanted: bool) -> None:
        self.taken = wanted

    async def show(self, stop: asyncio.Event) -> None:
        """Run the console until it leaves, or `stop` is set. It ends the bridge itself (SIGTERM) when it is told to."""
        command = [sys.executable, "-m", "a2a_bridge", "console", "--pid", str(os.getpid()), "--owns"]
        console = await asyncio.to_thread(subprocess.Popen, command)
        left = asyncio.create_task(asyncio.to_thread(console.wait))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({left, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not left.done():
            console.terminate()
            await left
        stopping.cancel()
        self.taken = False
