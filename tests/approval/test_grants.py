"""What has been allowed beyond one answer: whom a grant covers, how long, and how many there are."""

import pytest

from a2a_bridge.approval import grants as room
from a2a_bridge.approval.fingerprint import fingerprint
from a2a_bridge.approval.grants import Grants, Kind
from a2a_bridge.tool import Access, Call

MINE = Call("call-1", "s1", "omp 1")
NEXT = Call("call-2", "s1", "omp 1")
LATER = Call("call-3", "s2", "omp 1")
OTHER = Call("call-4", "s3", "claude-code 2")


class Table:
    """Grants with a clock that stands until it is moved."""

    def __init__(self, seconds: float = 600.0) -> None:
        self.now = 0.0
        self.grants = Grants(lambda: self.now, seconds)

    def give(self, kind: Kind, call: Call = MINE, tool: str = "bash", arguments: object = "x") -> int:
        mark = fingerprint(call, tool, arguments, Access())
        return self.grants.add(kind, call, tool, f"{tool} {arguments}", mark).id

    def use(self, call: Call, tool: str = "bash", arguments: object = "x") -> int | None:
        found = self.grants.use(call, tool, fingerprint(call, tool, arguments, Access()))
        return found.id if found else None


@pytest.fixture
def table() -> Table:
    return Table()


def test_once_is_for_one_identical_call_of_any_session_of_its_client(table: Table) -> None:
    number = table.give(Kind.ONCE)
    assert table.use(OTHER) is None
    assert table.use(NEXT, arguments="y") is None
    assert table.use(NEXT, tool="write") is None
    assert table.use(LATER) == number
    assert table.use(LATER) is None


def test_a_call_is_for_its_session_as_often_as_it_likes(table: Table) -> None:
    number = table.give(Kind.CALL)
    assert [table.use(NEXT) for _ in range(3)] == [number] * 3
    assert table.use(LATER) is None
    assert table.use(NEXT, arguments="y") is None
    assert table.use(NEXT, tool="write") is None


def test_a_tool_is_for_its_session_with_any_arguments(table: Table) -> None:
    number = table.give(Kind.TOOL)
    assert table.use(NEXT, arguments={"any": "thing"}) == number
    assert table.use(LATER) is None
    assert table.use(NEXT, tool="write") is None


def test_one_that_lasts_is_used_before_one_that_counts_once(table: Table) -> None:
    once, lasting = table.give(Kind.ONCE), table.give(Kind.TOOL)
    assert table.use(NEXT) == lasting
    assert table.grants.revoke(lasting) is not None
    assert table.use(NEXT) == once


def test_once_ends_with_its_time_and_the_others_do_not(table: Table) -> None:
    once, call, tool = table.give(Kind.ONCE), table.give(Kind.CALL), table.give(Kind.TOOL, tool="write")
    table.now = 599.9
    assert [one.id for one in table.grants.all()] == [once, call, tool]
    table.now = 600.0
    assert [one.id for one in table.grants.all()] == [call, tool]
    table.now = 1e9
    assert table.use(NEXT) == call


def test_no_seconds_are_no_grant() -> None:
    table = Table(seconds=0)
    table.give(Kind.ONCE)
    assert table.use(NEXT) is None


def test_a_session_takes_its_grants_along_and_leaves_what_waits_for_a_retry(table: Table) -> None:
    once = table.give(Kind.ONCE)
    table.give(Kind.CALL)
    table.give(Kind.TOOL)
    kept = table.give(Kind.TOOL, LATER)
    table.grants.end_session("s1")
    assert [one.id for one in table.grants.all()] == [once, kept]


def test_revoked_it_is_gone_and_said_so_once(table: Table) -> None:
    number = table.give(Kind.TOOL)
    revoked = table.grants.revoke(number)
    assert revoked is not None
    assert (revoked.id, revoked.tool, revoked.summary, revoked.client) == (number, "bash", "bash x", "omp 1")
    assert table.grants.revoke(number) is None
    assert table.use(NEXT) is None


def test_its_reason_names_it_and_how_far_it_reaches(table: Table) -> None:
    for kind in Kind:
        table.give(kind)
    assert [one.reason for one in table.grants.all()] == [
        "grant 1: once",
        "grant 2: this call, for the session",
        "grant 3: this tool, for the session",
    ]


def test_past_the_most_the_oldest_go(table: Table) -> None:
    for number in range(room.MOST_GRANTS + 3):
        table.give(Kind.ONCE, arguments=number)
    there = [one.id for one in table.grants.all()]
    assert there == list(range(4, room.MOST_GRANTS + 4))
    assert table.use(NEXT, arguments=0) is None
    assert table.use(NEXT, arguments=3) == 4
