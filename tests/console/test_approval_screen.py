"""A question to the owner: what is on the screen, which keys answer it, and which never do."""

import asyncio
import json

import msgspec
import pytest

from a2a_bridge.console.key_guard import GUARD_SECONDS
from a2a_bridge.control import messages as m
from tests.console.fake import FakeBridge, asked, live
from tests.console.person import MOMENT, at_console

NO_ORDER: list[tuple[str, object]] = []


async def test_a_question_in_full(bridge: FakeBridge) -> None:
    bridge.request(asked(), '{"command":"make flash PORT=/dev/ttyUSB0","cwd":"/а"}')
    bridge.previews[1] = "--- a/uart.c\n+++ b/uart.c\n-old\n+new"
    bridge.request(asked(2))
    bridge.change(1, times=3, callers=2)
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees("make flash", "characters as JSON", MOMENT, lacks=["[a] approve"])
        person.clock.seconds += GUARD_SECONDS
        await person.sees("[a] approve", lacks=[MOMENT])
        lines = [line.rstrip() for line in person.lines()]
        assert lines[0] == " APPROVAL 1 of 2   asked 3 times   2 callers wait" + " " * 17 + "waiting 00:14"
        assert lines[1] == " bash   exec   asked by claude-code 3.4.1   session 7f3a0000…   127.0.0.1:50000"
        assert lines[2] == " in ~/lab/firmware"
        assert lines[3].startswith("── arguments: 44 characters as JSON ──")
        assert lines[4:14] == [
            " command: 28 characters, 1 line",
            " │ make flash PORT=/dev/ttyUSB0",
            " cwd: 2 characters, 1 line",
            " │ /а",
            "   not ASCII: а U+0430 cyrillic small letter a",
            " what it would change",
            " │ --- a/uart.c",
            " │ +++ b/uart.c",
            " │ -old",
            " │ +new",
        ]
        assert lines[19] == " why asked: mode always-ask, tier exec, no rule"
        assert lines[21].startswith(" ▸[d] deny   [r] deny with a reason   [a] approve once")
        assert lines[22] == "  [s] this very call for the session   [t] all of this tool for the session"


async def test_its_age_counts_up(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens("waiting 00:14")
        bridge.change(1, seconds=75.0)
        await person.sees("waiting 01:15")
        await person.press("a")
        await person.sees("request 1 approved")


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("a", (m.APPROVE, m.Approval(1, "once"))),
        ("s", (m.APPROVE, m.Approval(1, "call"))),
        ("d", (m.DENY, m.Denial(1))),
    ],
)
async def test_one_key_answers(bridge: FakeBridge, keys: str, order: tuple[str, object]) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press(*keys)
        await person.sees("request 1 ", "q leave", lacks=["● WAITING"])
        assert bridge.orders == [order]


async def test_all_of_a_tool_needs_a_yes_of_its_own(bridge: FakeBridge) -> None:
    bridge.request(asked(1, "[b]tool[/]"))
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("t")
        await person.sees("? really approve all of [b]tool[/], unread, until session 7f3a0000… ends?")
        await person.press("a", "t", "enter", "s", "d")
        await person.press("y")
        await person.sees("has just come onto the screen")
        assert bridge.orders == NO_ORDER
        person.clock.seconds += GUARD_SECONDS
        await person.press("t")
        await person.sees("? really")
        person.clock.seconds += GUARD_SECONDS
        await person.press("n")
        await person.press("t")
        person.clock.seconds += GUARD_SECONDS
        await person.press("escape")
        await person.looks(bridge)
        assert bridge.orders == NO_ORDER
        await person.press("t")
        person.clock.seconds += GUARD_SECONDS
        await person.press("y")
        await person.sees("request 1 approved")
        assert bridge.orders == [(m.APPROVE, m.Approval(1, "tool"))]


async def test_a_denial_with_a_reason(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("r", "enter")
        await person.sees("no reason, no answer")
        await person.type("say [b]why[/], а? ")
        await person.sees("say [b]why[/], а?", "Enter deny with this reason")
        assert bridge.orders == NO_ORDER
        await person.press("enter")
        await person.sees("request 1 denied")
        assert bridge.orders == [(m.DENY, m.Denial(1, "say [b]why[/], а?"))]


async def test_keys_typed_as_a_reason_approve_nothing_and_escape_takes_it_back(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("r")
        await person.type("astyd nq")
        await person.sees("astyd nq")
        await person.press("escape")
        await person.sees("[a] approve once", lacks=["astyd nq"])
        assert bridge.orders == NO_ORDER
        await person.press("escape")
        await person.sees("q leave")
        assert bridge.orders == NO_ORDER


async def test_enter_never_approves(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.request(asked(2))
    async with at_console(bridge) as person:
        await person.opens()
        for _ in range(5):
            await person.press("enter", "space", "tab", "y")
            person.clock.seconds += 1
        await person.looks(bridge)
        await person.sees("APPROVAL 1 of 2")
        assert bridge.orders == NO_ORDER


async def test_keys_with_a_modifier_are_no_answer(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("alt+a", "ctrl+a", "ctrl+s", "ctrl+d", "A", "D")
        await person.looks(bridge)
        assert bridge.orders == NO_ORDER


@pytest.mark.parametrize("key", ["a", "s", "d", "r", "t"])
async def test_in_its_first_moment_a_prompt_answers_no_key(bridge: FakeBridge, key: str) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees("make flash", "characters as JSON")
        person.clock.seconds += GUARD_SECONDS - 0.01
        await person.press(key, *"y")
        await person.sees("nothing was answered: this has just come onto the screen")
        assert bridge.orders == NO_ORDER
        person.clock.seconds += 0.01
        await person.press("a")
        await person.sees("request 1 approved")


async def test_a_prompt_whose_arguments_are_not_there_yet_answers_no_key(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        bridge.refuse[m.APPROVAL] = "not [now]"
        await person.press("enter")
        await person.sees("not [now]", lacks=["make flash"])
        person.clock.seconds += 5
        await person.press("a", "d", "t", "y", "r", "s")
        await person.looks(bridge)
        assert bridge.orders == NO_ORDER
        bridge.refuse.clear()
        await person.sees("make flash")
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 1 approved")


async def test_what_has_changed_is_guarded_anew(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("t")
        await person.sees("? really")
        bridge.change(1, client="somebody else", session="8888-1")
        await person.sees("asked by somebody else", "session 8888…", lacks=["? really"])
        await person.press("a", "y")
        await person.sees("has just come onto the screen")
        assert bridge.orders == NO_ORDER
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 1 approved")


async def test_a_preview_that_has_changed_is_shown_and_guarded(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.previews[1] = "+before"
    async with at_console(bridge) as person:
        await person.opens("│ +before")
        bridge.previews[1] = "+after"
        bridge.change(1, times=2)
        await person.sees("│ +after", "asked 2 times")
        await person.press("a")
        await person.sees("has just come onto the screen")
        assert bridge.orders == NO_ORDER


async def test_the_next_question_is_guarded_too_and_is_the_one_that_is_answered(bridge: FakeBridge) -> None:
    for number in (3, 5, 7):
        bridge.request(asked(number), json.dumps({"command": f"question{number}"}))
    async with at_console(bridge) as person:
        await person.press("down")
        await person.opens("APPROVAL 2 of 3", "question5")
        await person.press("n")
        await person.sees("APPROVAL 3 of 3", "question7", lacks=["question5"])
        await person.press("a")
        await person.sees("has just come onto the screen")
        assert bridge.orders == NO_ORDER
        await person.press("n")
        await person.sees("APPROVAL 1 of 3", "question3")
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 3 approved")
        assert bridge.orders == [(m.APPROVE, m.Approval(3, "once"))]


async def test_arguments_that_come_late_are_not_shown_for_another_question(bridge: FakeBridge) -> None:
    for number in (3, 5):
        bridge.request(asked(number), json.dumps({"command": f"question{number}"}))
        bridge.held_back[number] = asyncio.Event()
    async with at_console(bridge) as person:
        await person.press("enter", "n")
        bridge.held_back[3].set()
        while 5 not in bridge.asked_for:
            await person.looks(bridge, 1)
        await person.sees("request 5", lacks=["question3"])
        person.clock.seconds += 5
        await person.press("a", "d")
        await person.looks(bridge)
        assert bridge.orders == NO_ORDER
        bridge.held_back[5].set()
        await person.sees("question5")
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 5 approved")


async def test_a_question_that_changes_while_a_reason_is_typed_is_guarded_and_the_reason_kept(
    bridge: FakeBridge,
) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("r")
        await person.type("why")
        bridge.change(1, withdrawn="it was cancelled, or its caller hung up")
        await person.sees("WITHDRAWN")
        await person.press("enter")
        await person.sees("has just come onto the screen", "why")
        assert bridge.orders == NO_ORDER
        person.clock.seconds += GUARD_SECONDS
        await person.press("enter")
        await person.sees("request 1 denied")
        assert bridge.orders == [(m.DENY, m.Denial(1, "why"))]


async def test_there_may_be_no_next_one(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("n")
        await person.sees("no other question waits", "make flash")


async def test_a_new_question_does_not_take_the_place_of_the_one_that_is_read(bridge: FakeBridge) -> None:
    bridge.request(asked(2), '{"command":"the one"}')
    async with at_console(bridge) as person:
        await person.opens("APPROVAL 1 of 1")
        bridge.requests = {1: asked(1), **bridge.requests}
        bridge.arguments[1] = "{}"
        await person.sees("APPROVAL 2 of 2", "the one")
        await person.press("a")
        await person.sees("request 2 approved")
        assert bridge.orders == [(m.APPROVE, m.Approval(2, "once"))]


async def test_a_question_that_is_answered_elsewhere_says_so_and_takes_no_answer(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("t")
        bridge.answer(1, "it has been approved")
        await person.sees("GONE", "request 1: it has been approved", "nothing is left to answer here", "make flash")
        person.clock.seconds += GUARD_SECONDS
        await person.press("y", "a", "s", "d", "r")
        await person.sees("nothing is left to answer: request 1: it has been approved")
        assert bridge.orders == NO_ORDER
        await person.press("escape")
        await person.sees("q leave")


async def test_it_may_be_answered_elsewhere_while_a_reason_is_typed(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("r")
        await person.type("why")
        bridge.answer(1, "it has been approved")
        await person.sees("GONE")
        await person.press("enter")
        await person.sees("nothing is left to answer: request 1: it has been approved")
        assert bridge.orders == NO_ORDER


async def test_a_refused_approval_is_told_in_the_bridges_words(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.refuse[m.APPROVE] = "the audit log is [full]"
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("a")
        await person.sees("the audit log is [full]", "[a] approve once")
        bridge.refuse.clear()
        await person.press("a")
        await person.sees("request 1 approved")


async def test_one_answer_at_a_time(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        bridge.silent = True
        await person.press("a", "a", "d", "n", "s")
        await person.sees("an answer is already on its way")
        assert bridge.orders == NO_ORDER


async def test_a_withdrawn_question_says_what_approving_it_now_means(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        bridge.change(1, withdrawn="it was cancelled, or its caller hung up")
        await person.sees(
            "WITHDRAWN",
            "asked 00:14",
            "asked earlier; withdrawn: it was cancelled, or its caller hung up",
            "nothing runs if you approve it now: the next identical call does",
        )
        await person.press("a")
        await person.sees("has just come onto the screen")
        assert bridge.orders == NO_ORDER
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 1 was withdrawn before, so nothing runs now", "○ GRANTED")
        assert bridge.orders == [(m.APPROVE, m.Approval(1, "once"))]
        await person.press("down", "up")
        await person.opens("granted: the next identical call runs unasked; d takes that back")
        await person.press("d")
        await person.sees("request 1 denied", lacks=["○"])


async def test_markup_and_control_characters_are_shown_literally(bridge: FakeBridge) -> None:
    nasty = "[red]x[/] [@click=app.quit]y[/]\x1b[2J\u202e \\u{1b}\ttab \nnext"
    one = msgspec.structs.replace(
        asked(1, "[b]t[/]\x07"), client="[i]c[/]\x1b", directory="[u]d[/]\n", reason="[s]r[/]\x9b", address="[a]"
    )
    bridge.request(one, json.dumps({"[k]\x1b": nasty}))
    async with at_console(bridge, size=(160, 30)) as person:
        await person.opens(
            "[k]\\u{1b}: ",
            "│ [red]x[/] [@click=app.quit]y[/]\\u{1b}[2J\\u{202e} \\u{5c}u{1b}\\u{9}tab\\u{20}",
            "│ next",
            "[b]t[/]\\u{7}   exec   asked by [i]c[/]\\u{1b}",
            "in [u]d[/]\\u{a}",
            "why asked: [s]r[/]\\u{9b}",
        )
        assert all(line.isprintable() for line in person.lines())


async def test_long_names_do_not_push_the_arguments_from_the_screen(bridge: FakeBridge) -> None:
    long = "n" * 5000
    one = msgspec.structs.replace(asked(1, long), client=long, directory=long, reason=long, address=long, tier=long)
    bridge.request(one, '{"command":"make flash"}')
    async with at_console(bridge) as person:
        await person.opens("│ make flash", "[d] deny", "[a] approve once")
        await person.press("end")
        await person.sees("the end", "n" * 70)


@pytest.mark.parametrize("letter", ["x", "я"])
async def test_a_megabyte_is_complete(bridge: FakeBridge, letter: str) -> None:
    bridge.request(asked(), json.dumps({"command": f"HEAD{letter * 1_000_000}TAIL"}))
    async with at_console(bridge) as person:
        await person.press("enter")
        await person.sees("command: 1,000,008 characters, 1 line", "│ HEAD", "↓ more below")
        await person.press("end")
        await person.sees("TAIL", "the end")
        person.clock.seconds += GUARD_SECONDS
        await person.press("a")
        await person.sees("request 1 approved")


async def test_a_reader_stays_where_they_are_when_something_about_it_changes(bridge: FakeBridge) -> None:
    bridge.request(asked(), json.dumps({"command": "\n".join(f"line {number}." for number in range(200))}))
    async with at_console(bridge) as person:
        await person.opens()
        await person.press("pagedown", "j", "down", "k")
        await person.sees("rows 15–", "line 13.")
        bridge.previews[1] = "+more"
        bridge.change(1, times=2)
        await person.sees("asked 2 times", "of 211", "rows 15–", "line 13.")
        await person.press("pageup", "up", "home")
        await person.sees("line 0.")


async def test_a_screen_that_changes_its_size_wraps_anew(bridge: FakeBridge) -> None:
    bridge.request(asked(), json.dumps({"command": "x" * 150 + "y"}))
    async with at_console(bridge) as person:
        await person.opens("┆ ")
        await person.resize(200, 30)
        await person.sees("x" * 150 + "y")


async def test_a_bridge_that_ends_leaves_the_question_to_read(bridge: FakeBridge) -> None:
    bridge.request(asked())
    async with at_console(bridge) as person:
        await person.opens()
        await bridge.stop()
        await person.press("a")
        await person.sees("the bridge has ended", "make flash")
        await person.ended()
        await person.press("a")
        await person.sees("the bridge has ended; q leaves", "make flash", lacks=["GONE"])
        await person.press("escape")
        await person.sees("✗ the bridge has ended", "q leave")


async def test_calls_that_wait_are_answered_and_not_cancelled(bridge: FakeBridge) -> None:
    bridge.request(asked())
    bridge.live = [live(7, request=1)]
    async with at_console(bridge) as person:
        await person.sees("● WAITING", "0 running, 1 waiting", lacks=["c0ffee"])
        await person.press("x", "y")
        await person.looks(bridge)
        assert bridge.orders == NO_ORDER
