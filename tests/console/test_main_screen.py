"""The main screen: what is seen of a bridge, and what its keys order."""

import json

import msgspec
import pytest

from a2a_bridge.console.base_screen import Room
from a2a_bridge.console.key_guard import GUARD_SECONDS
from a2a_bridge.console.line import Line
from a2a_bridge.control import messages as m
from tests.console.fake import SECRET, SESSION, FakeBridge, asked, ended, live
from tests.console.person import MOMENT, at_console


def busy(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.live = [live(99)]
    bridge.ended = [
        ended(98, "edit", "src/uart.c (1 edit, +3 −1)", "done", 0.004),
        ended(97, "read", "/etc/shadow", "failed"),
        ended(96, "bash", "adb devices -l", "abandoned", 75),
        *(ended(number) for number in range(95, 0, -1)),
    ]
    bridge.notices = ["warning: first", "warning: the audit log is nearly full"]


async def test_the_screen_at_80_by_24(bridge: FakeBridge) -> None:
    busy(bridge)
    async with at_console(bridge) as person:
        lines = person.lines()
        assert len(lines) == 24
        assert lines[0].rstrip() == " http://127.0.0.1:43817/   token q7Wm2x…   host local: labbox   up 2:14:09"
        assert lines[1].rstrip() == " sessions 2   calls 1 running, 1 waiting, 312 done, 3 failed   audit ok"
        assert lines[2].startswith("── 1 WAITING for your answer: Enter shows it ──")
        assert lines[3].startswith("▸ ● WAITING bash    make flash PORT=/dev/ttyUSB0 ")
        assert lines[3].rstrip().endswith("claude-code…    00:14")
        assert lines[4].startswith("── calls   1–16 of 99 ──")
        assert "bash    pytest -q tests/uart " in lines[5]
        assert lines[5].endswith(" omp 14.1        00:31 …")
        assert "edit    src/uart.c (1 edit, +3 −1) " in lines[6]
        assert [line[-9:] for line in lines[6:9]] == ["   4 ms ✓", "   1 ms ✗", "  01:15 ⊘"]
        assert lines[21].rstrip() == " notice: warning: the audit log is nearly full"
        assert lines[22] == "─" * 80
        assert lines[23].rstrip() == " ⏎ answer  x cancel  p pause  c copy  t token  / filter  ? keys  q leave"


async def test_the_screen_at_200_by_50(bridge: FakeBridge) -> None:
    busy(bridge)
    bridge.ended[3] = ended(95, "bash", "x" * 190)
    async with at_console(bridge, size=(200, 50)) as person:
        lines = person.lines()
        assert len(lines) == 50
        assert lines[0].startswith(" a2a-bridge   http://127.0.0.1:43817/")
        assert "claude-code 3.4.1" in lines[3]
        assert lines[4].startswith("── calls   1–42 of 99 ──")
        assert "x" * 100 in lines[9]
        assert "… " in lines[9]
        for key in ("↑↓ select", "c copy client entry", "g grants", "S sessions", "R rotate", "b bell off", "/ filter"):
            assert key in lines[49]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_all_screens_fit(bridge: FakeBridge, size: tuple[int, int]) -> None:
    busy(bridge)
    async with at_console(bridge, size=size) as person:
        for key in ("enter", "t", "g", "S", "n", "question_mark"):
            await person.press(key)
            if key == "enter":
                await person.sees(MOMENT, "characters as JSON")
                person.clock.seconds += GUARD_SECONDS
            screen = await person.sees("Escape", lacks=["asking"])
            assert len(screen.splitlines()) == size[1]
            await person.press("escape")
            await person.sees("sessions 2")


async def test_a_screen_that_changes_its_size_is_drawn_anew(bridge: FakeBridge) -> None:
    busy(bridge)
    async with at_console(bridge) as person:
        await person.resize(120, 40)
        await person.sees("1–32 of 99", "c copy client entry")


async def test_a_terminal_that_is_too_small_is_no_end(bridge: FakeBridge) -> None:
    busy(bridge)
    async with at_console(bridge) as person:
        await person.resize(20, 4)
        await person.press("enter", "escape", "j", "x")
        await person.looks(bridge)
        await person.resize(80, 24)
        await person.sees("http://127.0.0.1:43817/")


async def test_without_colours_nothing_is_lost_and_nothing_is_black_on_black(
    bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    busy(bridge)
    async with at_console(bridge) as person:
        await person.sees("● WAITING", "✓", "✗", "…", "⊘")
        strips = person.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        assert styles
        colours = {colour.name for style in styles for colour in (style.color, style.bgcolor) if colour is not None}
        assert colours <= {"default"}


async def test_with_colours_they_are_the_terminals_own(bridge: FakeBridge) -> None:
    busy(bridge)
    async with at_console(bridge) as person:
        strips = person.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        colours = {colour.name for style in styles for colour in (style.color, style.bgcolor) if colour is not None}
        assert colours == {"default", "yellow"}


async def test_names_from_elsewhere_are_shown_as_they_are(bridge: FakeBridge) -> None:
    bridge.status = msgspec.structs.replace(bridge.status, host="[b]h[/]\x1b[2J")
    bridge.notices = ["[red]n[/] \x07"]
    bridge.request(asked(1, "[i]t[/]", "[@click=app.quit]x[/] \u202e"))
    bridge.ended = [ended(1, "[u]", "[link=file:///]y[/]\r")]
    async with at_console(bridge, size=(160, 24)) as person:
        await person.sees(
            "[b]h[/]\\u{1b}[2J",
            "notice: [red]n[/] \\u{7}",
            "[i]t[/]",
            "[@click=app.quit]x[/] \\u{202e}",
            "[u]",
            "[link=file:///]y[/]\\u{d}",
        )


async def test_whatever_is_forgotten_no_control_character_reaches_the_terminal(bridge: FakeBridge) -> None:
    async with at_console(bridge, size=(80, 3)) as person:
        assert isinstance(person.app.screen, Room)
        person.app.screen.canvas.show([Line("a\x1b[2J\u202eb")])
        assert person.lines()[0].rstrip() == "a\\u{1b}[2J\\u{202e}b"


async def test_the_bridge_is_asked_by_one_look_at_a_time(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.looks(bridge, 10)
        assert bridge.most_at_once == 1


async def test_a_new_question_rings_once_and_stands_in_the_title(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        assert person.app.bells == 0
        bridge.request(asked(1))
        await person.sees("● WAITING")
        await person.looks(bridge, 5)
        assert person.app.bells == 1
        assert person.app.sent[-1] == "\x1b]2;● 1 WAITING  a2a-bridge\x07"
        bridge.request(asked(2))
        await person.sees("2 WAITING")
        assert person.app.bells == 2
        bridge.change(2, withdrawn="its session ended")
        bridge.answer(1, "it has been denied")
        await person.sees("nobody waits", "1 asked earlier")
        await person.looks(bridge)
        assert person.app.sent[-1] == "\x1b]2;a2a-bridge\x07"
        await person.press("b")
        await person.sees("the bell is off")
        bridge.request(asked(3))
        await person.sees("● WAITING")
        await person.looks(bridge)
        assert person.app.bells == 2


async def test_leaving_gives_the_terminal_its_title_back(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.looks(bridge)
        assert person.app.sent[0] == "\x1b[22;2t"
        await person.press("q")
        assert person.app.sent[-1] == "\x1b[23;2t"


async def test_a_selected_row_is_held_and_home_lets_it_go(bridge: FakeBridge) -> None:
    bridge.ended = [ended(number) for number in range(60, 0, -1)]
    async with at_console(bridge) as person:
        await person.press("j", "down", "k", "j")
        assert "file58.c" in person.line("▸")
        for number in range(61, 66):
            bridge.ended.insert(0, ended(number))
            bridge.done += 1
            await person.looks(bridge)
        await person.sees("5 newer, Home shows them", lacks=["file65.c"])
        assert "file58.c" in person.line("▸")
        await person.press("home")
        await person.sees("file65.c", lacks=["newer"])
        await person.press("end")
        await person.sees("file1.c")
        await person.press("pageup")
        await person.sees("▸")


async def test_cancelling_asks_first(bridge: FakeBridge) -> None:
    bridge.live = [live(7, summary="sleep [b]900[/]")]
    bridge.ended = [ended(1)]
    async with at_console(bridge) as person:
        await person.press("x")
        await person.sees("? cancel bash sleep [b]900[/]?", "y yes   n no")
        await person.press("n")
        await person.press("x", "escape", "x", "x", "enter")
        await person.sees("? cancel bash")
        assert bridge.orders == []
        await person.press("y")
        await person.sees("call 7 cancelled: bash; its caller is told so")
        assert bridge.orders == [(m.CANCEL, m.Id("c0ffee-000007"))]


async def test_a_cancellation_is_of_the_call_that_was_asked_about(bridge: FakeBridge) -> None:
    bridge.live = [live(7, summary="first")]
    async with at_console(bridge) as person:
        await person.press("x")
        bridge.live = [live(8, summary="second"), live(7, summary="first")]
        await person.sees("second", "? cancel bash first?")
        await person.press("y")
        await person.sees("cancelled")
        assert bridge.orders == [(m.CANCEL, m.Id("c0ffee-000007"))]


async def test_what_has_ended_or_waits_is_not_cancelled(bridge: FakeBridge) -> None:
    bridge.ended = [ended(1)]
    async with at_console(bridge) as person:
        await person.press("x")
        await person.sees("that call has ended")
        bridge.request(asked())
        await person.sees("● WAITING")
        await person.press("x")
        await person.sees("Enter shows the question")
        assert bridge.orders == []


async def test_pausing_is_at_once_and_resuming_asks(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.press("p")
        await person.sees("paused: 1 running call cancelled")
        assert bridge.orders == [(m.PAUSE, None)]
        bridge.status = msgspec.structs.replace(bridge.status, paused=True)
        await person.sees("PAUSED", "p resume")
        await person.press("p")
        await person.sees("? resume: let new calls run again?")
        await person.press("n")
        await person.looks(bridge)
        assert len(bridge.orders) == 1
        await person.press("p", "y")
        await person.sees("resumed: new calls run again")
        assert bridge.orders[1:] == [(m.RESUME, None)]


async def test_an_audit_log_that_fails_is_seen(bridge: FakeBridge) -> None:
    bridge.status = msgspec.structs.replace(bridge.status, audit_failed=4)
    async with at_console(bridge) as person:
        await person.sees("audit FAILED 4", lacks=["audit ok"])


async def test_the_client_entry_is_copied_and_the_token_not_shown(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.press("c")
        screen = await person.sees("the client entry", "clipboard", "a2a-bridge mcp-json")
        assert SECRET not in screen
        (entry,) = json.loads(person.app.clipboard)["mcpServers"].items()
        assert entry == (
            "a2a",
            {
                "type": "streamable-http",
                "url": "http://127.0.0.1:43817/mcp",
                "headers": {"Authorization": f"Bearer {SECRET}"},
            },
        )
        assert bridge.orders == [(m.TOKEN, None)]


async def test_the_token_is_shown_on_demand_and_is_gone_then(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.looks(bridge)
        assert bridge.orders == []
        await person.press("t")
        await person.sees("TOKEN, in full", SECRET)
        await person.press("escape")
        await person.sees("sessions", lacks=[SECRET])


async def test_rotating_asks_and_tells_the_new_prefix(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.press("R", "n")
        await person.looks(bridge)
        assert bridge.orders == []
        await person.press("R")
        await person.sees("? replace the token?")
        await person.press("y")
        await person.sees("rotated: token Zz9Yy8… counts at once", "token Zz9Yy8…   host")
        assert bridge.orders == [(m.ROTATE, None)]


@pytest.mark.parametrize(
    ("method", "keys"), [(m.PAUSE, "p"), (m.TOKEN, "t"), (m.TOKEN, "c"), (m.ROTATE, "Ry"), (m.CANCEL, "xy")]
)
async def test_a_refusal_is_told_in_the_bridges_words(bridge: FakeBridge, method: str, keys: str) -> None:
    bridge.live = [live(7)]
    bridge.refuse[method] = "the disk is [full]"
    async with at_console(bridge) as person:
        await person.press(*keys)
        await person.sees("the disk is [full]", "sessions 2")


async def test_a_filter_narrows_the_calls_as_it_is_typed(bridge: FakeBridge) -> None:
    bridge.ended = [ended(1, "read", "src/uart.c"), ended(2, "bash", "make"), ended(3, "read", "q.c")]
    async with at_console(bridge, owns=True) as person:
        await person.press("slash")
        await person.type("UART")
        await person.sees("with 'UART': 1 of 3", "src/uart.c", lacks=["make"])
        await person.press("enter")
        await person.sees("with 'UART'", "q leave")
        await person.press("escape")
        await person.sees("make", "q.c", lacks=["with '"])


async def test_keys_typed_into_the_filter_are_only_text(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.live = [live(7)]
    async with at_console(bridge) as person:
        await person.press("slash")
        await person.type("adxpyqtRn? gS")
        await person.sees("with 'adxpyqtRn? gS'", "adxpyqtRn? gS")
        await person.press("escape")
        await person.sees("q leave", lacks=["with '"])
        assert bridge.orders == []
        assert person.app.is_running


async def test_a_new_question_leaves_what_is_typed_alone(bridge: FakeBridge) -> None:
    bridge.ended = [ended(1)]
    async with at_console(bridge) as person:
        await person.press("slash")
        await person.type("fi")
        bridge.request(asked())
        await person.sees("● WAITING")
        await person.type("le")
        await person.sees("with 'file': 1 of 1")


async def test_no_key_of_the_list_approves(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.press("a", "s", "y", "d", "r")
        await person.looks(bridge)
        assert bridge.orders == []


async def test_a_bridge_that_has_ended_leaves_the_screen_to_read(bridge: FakeBridge) -> None:
    bridge.ended = [ended(number) for number in range(60, 0, -1)]
    async with at_console(bridge, owns=True) as person:
        await bridge.stop()
        await person.sees("✗ the bridge has ended", "file60.c")
        await person.press("end")
        await person.sees("file1.c")
        for key in ("p", "x", "c", "t", "R", "enter", "slash", "g"):
            person.clock.seconds += 60
            await person.sees(lacks=["; q leaves"])
            await person.press(key)
            await person.sees("the bridge has ended; q leaves")
        await person.press("q")
        assert person.app.return_value is False


async def test_a_bridge_that_comes_back_is_seen_again(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await bridge.stop()
        await person.sees("✗ the bridge has ended")
        await bridge.start()
        await person.sees("audit ok", lacks=["ended"])


async def test_q_leaves_a_console_that_came_by_itself(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.press("q")
        assert person.app.return_value is False


@pytest.mark.parametrize("leave", ["q", "ctrl+c", "ctrl+q"])
@pytest.mark.parametrize(("answer", "stop"), [("y", True), ("n", False)])
async def test_q_asks_once_whether_to_stop_ones_own_bridge(
    bridge: FakeBridge, leave: str, answer: str, stop: bool
) -> None:
    async with at_console(bridge, owns=True) as person:
        await person.press(leave)
        await person.sees("stop the bridge too?")
        assert person.app.return_value is None
        await person.press("escape")
        await person.sees("q leave")
        await person.press(leave, answer)
        assert person.app.return_value is stop


@pytest.mark.parametrize("where", ["enter", "slash", "t", "S"])
async def test_ctrl_c_leaves_from_everywhere(bridge: FakeBridge, where: str) -> None:
    bridge.request(asked())
    async with at_console(bridge, owns=True) as person:
        await person.press(where)
        await person.looks(bridge)
        await person.press("ctrl+c")
        await person.sees("stop the bridge too?")
        await person.press("y")
        assert person.app.return_value is True


async def test_notices_and_keys_are_shown_in_full(bridge: FakeBridge) -> None:
    busy(bridge)
    async with at_console(bridge, size=(80, 50)) as person:
        await person.press("n")
        await person.sees("NOTICES", "│ warning: first", "│ warning: the audit log")
        await person.press("escape", "question_mark")
        screen = await person.sees("KEYS AND MARKS", "On a question", "a character that cannot be seen")
        assert "┆ " not in screen.replace("┆   the same line", "")


async def test_sessions_are_listed_and_ended_after_a_yes(bridge: FakeBridge) -> None:
    bridge.sessions = [
        m.SessionRow("aaaa0000-1", "omp 14.1", "127.0.0.1:1", 61.0, 1.0, 0),
        m.SessionRow(SESSION, "[b]c[/]", "127.0.0.1:2", 3700.0, 2.0, 2),
    ]
    async with at_console(bridge) as person:
        await person.press("S")
        await person.sees("SESSIONS", "omp 14.1", "[b]c[/]", "2 calls", "opened 01:01 ago", "opened 1:01:40 ago")
        await person.press("j", "x")
        await person.sees("? end session 7f3a0000 of [b]c[/]; its 2 calls in flight will be cancelled?")
        await person.press("n", "x")
        bridge.sessions.reverse()
        await person.looks(bridge)
        assert bridge.orders == []
        await person.press("y")
        await person.sees("session 7f3a0000 ended")
        assert bridge.orders == [(m.END_SESSION, m.Id(SESSION))]
        assert "[b]c[/]" in person.line("▸")


async def test_grants_are_listed_and_revoked(bridge: FakeBridge) -> None:
    bridge.grants = [
        m.GrantRow(1, "once", "bash", "make [b]flash[/]", "omp", SESSION, 61.0),
        m.GrantRow(2, "this tool, for the session", "read", "x", "omp", SESSION, None),
    ]
    async with at_console(bridge, size=(120, 24)) as person:
        await person.press("g")
        await person.sees("GRANTS", "make [b]flash[/]", "once, for 01:01 more", "this tool, for the session")
        await person.press("down")
        del bridge.grants[0]
        await person.sees(lacks=["flash"])
        await person.press("x")
        await person.sees("revoked")
        assert bridge.orders == [(m.REVOKE, m.Number(2))]


async def test_empty_lists_have_nothing_to_end(bridge: FakeBridge) -> None:
    async with at_console(bridge) as person:
        await person.press("g", "x")
        await person.sees("there is no grant")
        await person.press("escape", "S", "x")
        await person.sees("there is no session")
        assert bridge.orders == []


async def test_a_call_in_full(bridge: FakeBridge) -> None:
    bridge.ended = [ended(98, "bash", "make", "failed", 1.2)]
    bridge.results["c0ffee-000098"] = (
        '{"command":"[red]make[/]\\u001b"}',
        "[b]no rule[/]\x07\n" + "line\n" * 50 + "last",
    )
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees(
            "CALL 98",
            "failed, at ",
            "after 1.2 s",
            "decided    mode always-ask",
            f"session    {SESSION}",
            "audit id   c0ffee-000098",
            "│ [red]make[/]\\u{1b}",
            "│ [b]no rule[/]\\u{7}",
            lacks=["│ last"],
        )
        await person.press("end")
        await person.sees("│ last", "the end")
        await person.press("escape")
        await person.sees("sessions 2")


async def test_a_running_call_in_full_is_told_anew_when_it_ends(bridge: FakeBridge) -> None:
    bridge.live = [live(7)]
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees("running since", "for 00:31")
        bridge.live, bridge.ended = [], [ended(7, "bash", "pytest", "done", 31.5)]
        bridge.results["c0ffee-000007"] = ("{}", "3 passed")
        await person.sees("done, at", "after 31.5 s", "│ 3 passed")


async def test_a_call_that_is_not_remembered_is_said(bridge: FakeBridge) -> None:
    bridge.ended = [ended(7)]
    bridge.refuse[m.CALL] = "there is no call 7, or it is not remembered any more"
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees("there is no call 7")
