"""The fake bridge of each test, and a console that looks more often than people need."""

from collections.abc import AsyncIterator

import pytest

from a2a_bridge.console import app
from tests.console.fake import FakeBridge, fake_bridge


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOOK_SECONDS", 0.02)


@pytest.fixture
async def bridge() -> AsyncIterator[FakeBridge]:
    async with fake_bridge() as one:
        yield one
