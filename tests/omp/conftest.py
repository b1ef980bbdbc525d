"""One omp for the tests that leave it as they found it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.callers import Client, HttpCaller
from tests.support.omp import Home, Omp, omp


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Omp]:
    home = Home(tmp_path_factory.mktemp("omp"))
    home.install()
    home.bridge(deny=["web_search"])
    with omp(home) as running:
        running.served()
        yield running
        assert running.process.poll() is None, "omp died during the tests"
        assert running.garbage == [], "omp's stdout is a protocol"


@pytest.fixture
async def hands(one: Omp) -> AsyncIterator[Client]:
    """A client with an open session at the shared omp's bridge."""
    client = client_of(one)
    await client.open(name="lab-agent", version="1.0")
    yield client
    assert one.turns() == [], "a remote call woke the model"


def client_of(one: Omp, since: int = 0) -> Client:
    served = one.served(since)
    return Client(HttpCaller(served), served.token)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home for an omp of this test's own, with the extension installed."""
    fresh = Home(tmp_path)
    fresh.install()
    return fresh
