"""Fixtures of all tests, and the rule for missing peers: left out with a word at a developer's, a failure in CI."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.callers import SETTINGS, Caller, Client, HttpCaller, MemoryCaller
from tests.support.processes import Served, scripted


@pytest.fixture(scope="session")
def scripted_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One real bridge process for all contract tests."""
    with scripted(tmp_path_factory.mktemp("scripted"), SETTINGS) as served:
        yield served
        assert served.process.poll() is None, "the server died during the tests"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryCaller]:
    caller = MemoryCaller(tmp_path)
    yield caller
    caller.journal.close()


@pytest.fixture
def http(scripted_process: Served) -> HttpCaller:
    return HttpCaller(scripted_process)


@pytest.fixture
async def byte_by_byte(tmp_path: Path) -> AsyncIterator[MemoryCaller]:
    caller = MemoryCaller(tmp_path, cuts=True)
    yield caller
    caller.journal.close()


@pytest.fixture(params=["memory", "byte_by_byte", "http"])
def caller(request: pytest.FixtureRequest) -> Caller:
    """The same rule three times: in memory, in memory with the bytes one by one, and over HTTP."""
    found: Caller = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def client(caller: Caller) -> Client:
    """A client with an open session."""
    one = Client(caller)
    await one.open()
    return one


def missing(peer: str) -> None:
    """A real peer that a test needs is not here."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {peer}")
    pytest.skip(f"left out: {peer} is not installed")
