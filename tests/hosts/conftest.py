"""Local hosts for the tests of their tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import Machine


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """For properties, which run many examples in one test."""
    machine = Machine(tmp_path_factory.mktemp("shared"))
    yield machine
    machine.close()
