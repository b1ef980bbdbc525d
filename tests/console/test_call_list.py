"""The rows of the main screen: chosen by id, held while they are read, counted when they are too many."""

import msgspec

from a2a_bridge.console.call_list import CALM_LOOKS, Board
from a2a_bridge.control.messages import EndedCall, LiveCall, Overview
from tests.console.fake import FakeBridge, asked, ended, live

WIDTH, HEIGHT = 80, 20


class Table:
    """A board and the bridge that it shows, without a screen."""

    def __init__(self, bridge: FakeBridge) -> None:
        self.bridge = bridge
        self.board = Board(lambda: 1_700_000_500.0)
        self.look()

    def look(self, seconds: float = 0.25) -> list[str]:
        status = self.bridge.status
        self.bridge.status = msgspec.structs.replace(status, uptime=status.uptime + seconds)
        overview: Overview = self.bridge.overview()
        self.board.update(overview)
        return self.lines()

    def lines(self, height: int = HEIGHT) -> list[str]:
        lines = [line.text for line in self.board.lines(WIDTH, height)]
        assert len(lines) == height
        return lines

    def ends(self, *numbers: int) -> list[str]:
        for number in numbers:
            self.bridge.ended.insert(0, ended(number))
            self.bridge.done += 1
        del self.bridge.ended[100:]
        return self.look()

    def where(self, part: str) -> int:
        (found,) = [index for index, line in enumerate(self.lines()) if part in line]
        return found

    def chosen(self) -> str:
        (found,) = [line for line in self.lines() if line.startswith("▸")]
        return found


async def test_the_newest_is_first_and_followed_while_nothing_is_selected(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(1, 2)
    assert "file2.c" in table.chosen()
    lines = table.ends(3)
    assert "file3.c" in table.chosen()
    assert [line[20:27] for line in lines[1:4]] == ["src/fil"] * 3
    assert [table.where(f"file{number}.c") for number in (3, 2, 1)] == [1, 2, 3]


async def test_what_runs_stands_above_what_has_ended_and_what_waits_only_above_that(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.live = [live(9), live(8, "bash", "make flash", request=1)]
    table = Table(bridge)
    table.ends(1)
    assert table.where("● WAITING") < table.where("pytest") < table.where("file1.c")
    assert sum("make flash" in line for line in table.lines()) == 1


async def test_a_selected_call_holds_the_list_and_new_ones_are_counted(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(*range(1, 11))
    table.board.move(3)
    before = table.lines()
    assert "file7.c" in table.chosen()
    lines = table.ends(*range(11, 16))
    assert lines[1:] == before[1:]
    assert "5 newer, Home shows them" in lines[0]
    table.board.home()
    assert "file15.c" in table.chosen()
    assert "newer" not in table.lines()[0]


async def test_up_from_the_first_row_lets_the_list_go(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(1, 2, 3)
    table.board.move(1)
    table.ends(4)
    table.board.move(-1)
    assert "file3.c" in table.chosen()
    table.board.move(-1)
    assert "file4.c" in table.chosen()
    assert not table.board.held


async def test_a_held_call_that_ends_says_so_in_its_place(bridge: FakeBridge) -> None:
    bridge.live = [live(51), live(50, summary="sleep 9")]
    table = Table(bridge)
    table.ends(1)
    table.board.move(2)
    row = table.where("sleep 9")
    bridge.live = [live(51)]
    bridge.ended.insert(0, ended(50, "bash", "sleep 9", "failed"))
    bridge.failed += 1
    table.look()
    assert table.where("sleep 9") == row
    assert table.lines()[row].endswith("✗")


async def test_a_held_call_that_ended_and_is_forgotten_does_not_seem_to_run(bridge: FakeBridge) -> None:
    bridge.live = [live(50, summary="sleep 9")]
    table = Table(bridge)
    table.ends(1)
    table.board.move(1)
    bridge.live = []
    table.look()
    assert table.lines()[table.where("sleep 9")].endswith("ended ?")


async def test_a_row_that_is_read_stays_where_it_is_when_a_question_comes(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(*range(1, 41))
    table.board.move(20)
    row = table.where("▸")
    bridge.request(asked())
    bridge.request(asked(2))
    table.look()
    assert table.where("▸") == row
    assert "● WAITING" in table.lines()[1]
    bridge.requests.clear()
    table.look()
    assert table.where("▸") == row


async def test_a_question_is_selected_unless_something_was_selected_by_hand(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(1, 2)
    bridge.request(asked())
    table.look()
    assert "● WAITING" in table.chosen()
    bridge.requests.clear()
    table.look()
    table.board.end()
    bridge.request(asked(2))
    table.look()
    assert "file1.c" in table.chosen()


async def test_a_selected_question_stays_selected_when_an_older_one_is_answered(bridge: FakeBridge) -> None:
    for number in (1, 2, 3):
        bridge.request(asked(number, summary=f"question{number}"))
    table = Table(bridge)
    table.board.move(1)
    del bridge.requests[1]
    table.look()
    assert "question2" in table.chosen()
    del bridge.requests[2]
    table.look()
    assert "question3" in table.chosen()


async def test_many_questions_leave_room_for_calls_and_are_scrolled_to(bridge: FakeBridge) -> None:
    for number in range(1, 31):
        bridge.request(asked(number, summary=f"question{number}."))
    table = Table(bridge)
    lines = table.ends(1)
    assert "30 WAITING for your answer" in lines[0]
    assert "1–6 of 30" in lines[0]
    assert "file1.c" in lines[8]
    table.board.move(20)
    assert "question21." in table.chosen()


async def test_what_was_asked_earlier_takes_little_room(bridge: FakeBridge) -> None:
    for number in range(1, 11):
        bridge.request(msgspec.structs.replace(asked(number), withdrawn="its session ended"))
    table = Table(bridge)
    lines = table.ends(1)
    assert "nobody waits" in lines[0]
    assert sum("○ EARLIER" in line for line in lines) == 2
    assert "file1.c" in table.chosen()


async def test_too_many_calls_show_as_a_rate_and_the_list_stands_still(bridge: FakeBridge) -> None:
    table = Table(bridge)
    for number in range(1, 31):
        before = table.ends(number)
    for _ in range(3):
        bridge.done += 1240
        lines = table.ends(*range(31, 41))
        assert "5,000 calls/s, too fast to list" in lines[0]
        assert lines[1:] == before[1:]
    for _ in range(CALM_LOOKS):
        lines = table.ends(41)
    assert "calls/s" not in lines[0]
    assert "file41.c" in lines[1]


async def test_home_shows_the_newest_even_then(bridge: FakeBridge) -> None:
    table = Table(bridge)
    for number in range(1, 31):
        table.ends(number)
    bridge.done += 1240
    table.ends(37)
    assert "1,241 newer" in table.lines()[0]
    table.board.home()
    assert "file37.c" in table.lines()[1]


async def test_a_list_with_room_is_filled_even_then(bridge: FakeBridge) -> None:
    table = Table(bridge)
    lines = table.ends(*range(1, 81))
    assert "320 calls/s" in lines[0]
    assert "file80.c" in lines[1]


async def test_the_rate_is_by_the_bridges_clock(bridge: FakeBridge) -> None:
    table = Table(bridge)
    bridge.done += 500
    assert "100 calls/s" in table.look(5.0)[0]


async def test_a_filter_looks_into_tool_sentence_and_client(bridge: FakeBridge) -> None:
    bridge.request(asked(1, summary="is never hidden"))
    bridge.live = [live(60)]
    table = Table(bridge)
    bridge.ended = [ended(1, "grep", "x"), ended(2, "read", "GREPPED"), ended(3, "read", "y")]
    table.look()
    for needle, found in (("grep", 2), ("omp", 1), ("claude", 3), ("nowhere", 0)):
        table.board.look_for(needle)
        lines = table.lines()
        assert f"with '{needle}': {found} of 4, Escape shows all" in lines[2]
        assert sum(line.endswith(("✓", "…")) for line in lines[3:]) == found
        assert "is never hidden" in lines[1]


async def test_what_is_selected_and_filtered_away_is_not_acted_on(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(1, 2, 3)
    table.board.end()
    table.board.look_for("file3")
    chosen = table.board.chosen
    assert isinstance(chosen, EndedCall)
    assert chosen.summary == "src/file3.c"


async def test_pages_and_ends(bridge: FakeBridge) -> None:
    table = Table(bridge)
    table.ends(*range(1, 81))
    table.board.page(1)
    assert "file62.c" in table.chosen()
    table.board.end()
    assert "file1.c" in table.chosen()
    assert "62–80 of 80" in table.lines()[0]
    table.board.page(-1)
    assert "file19.c" in table.chosen()
    table.board.move(500)
    assert "file1.c" in table.chosen()


async def test_nothing_at_all_is_no_trouble(bridge: FakeBridge) -> None:
    table = Table(bridge)
    for act in (table.board.home, table.board.end, lambda: table.board.move(1), lambda: table.board.page(-1)):
        act()
    assert table.board.chosen is None
    assert table.lines(1)[0].startswith("── calls")


async def test_when_a_call_began_does_not_waver(bridge: FakeBridge) -> None:
    now = [0.0]
    board = Board(lambda: 1_700_000_000.0 + now[0])
    starts = []
    for now[0], age in ((500.0, 31.0), (501.4, 31.6), (502.7, 32.2)):
        bridge.live = [msgspec.structs.replace(live(1), seconds=age)]
        board.update(bridge.overview())
        assert isinstance(board.chosen, LiveCall)
        starts.append(board.lines(WIDTH, 5)[1].text[2:10])
    assert len(set(starts)) == 1
