"""Whether a call runs: every mode and tier, and every way in which rules can meet, against a second judge."""

from itertools import product

import pytest

from a2a_bridge.approval.policy import MODES, Decision, Mode, Policy, Rule, Verdict, matches
from a2a_bridge.tool import Access, Tier

STATUS = Access("exec", "/lab", "git status -s")


def verdict(rules: dict[str, str], name: str = "bash", access: Access = STATUS, mode: Mode = "always-ask") -> str:
    return Policy(mode, rules).decide(name, access).verdict.value


@pytest.mark.parametrize(
    ("mode", "tier", "expected"),
    [
        ("always-ask", "read", "allow"),
        ("always-ask", "write", "prompt"),
        ("always-ask", "exec", "prompt"),
        ("write", "read", "allow"),
        ("write", "write", "allow"),
        ("write", "exec", "prompt"),
        ("yolo", "read", "allow"),
        ("yolo", "write", "allow"),
        ("yolo", "exec", "allow"),
    ],
)
def test_without_a_rule_mode_and_tier_decide(mode: Mode, tier: Tier, expected: str) -> None:
    decision = Policy(mode, {"other": "deny"}).decide("bash", Access(tier))
    assert decision == Decision(Verdict(expected), f"mode {mode}, tier {tier}, no rule")


def test_the_table_of_modes_has_no_cell_more() -> None:
    assert {(mode, tier) for mode, row in MODES.items() for tier in row} == set(
        product(("always-ask", "write", "yolo"), ("read", "write", "exec"))
    )


def test_what_states_no_tier_counts_as_exec() -> None:
    assert Policy("write").decide("anything", Access()).reason == "mode write, tier exec, no rule"


# The kinds of rules that match a call of `bash` with STATUS, the most specific first; two of each, to meet each other.
KINDS = (
    ("bash(git status*)", "bash(git *)"),
    ("bash",),
    ("bas*", "*ash"),
    ("b*", "*h"),
    ("*",),
)
CHOICES = (None, "allow", "prompt", "deny")


def second_judge(rules: dict[str, str]) -> str:
    """The table of the docs, word by word: deny anywhere; else the first kind that matches, its `prompt` first."""
    if "deny" in rules.values():
        return "deny"
    for kind in KINDS:
        there = [rules[text] for text in kind if text in rules]
        if there:
            return "prompt" if "prompt" in there else "allow"
    return "prompt"


def test_every_combination_of_kinds_and_verdicts() -> None:
    texts = [text for kind in KINDS for text in kind]
    wrong = []
    for choice in product(CHOICES, repeat=len(texts)):
        rules = {text: word for text, word in zip(texts, choice, strict=True) if word}
        # The order in which they are written must not matter; half of them are written the other way round.
        written = dict(reversed(rules.items())) if len(rules) % 2 else rules
        if verdict(written) != second_judge(rules):
            wrong.append(written)
    assert not wrong


@pytest.mark.parametrize("mode", ["always-ask", "write", "yolo"])
@pytest.mark.parametrize("word", ["allow", "prompt", "deny"])
@pytest.mark.parametrize("tier", ["read", "write", "exec"])
def test_a_rule_outweighs_every_mode_and_tier(mode: Mode, word: str, tier: Tier) -> None:
    assert verdict({"bash": word}, access=Access(tier, "/lab", "make"), mode=mode) == word


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"bash": "allow"}, "rule bash: allow"),
        ({"bash": "allow", "b*": "deny"}, "rule b*: deny"),
        ({"bash(git *)": "prompt", "bash": "allow"}, "rule bash(git *): prompt"),
        ({"bash(git *)": "allow", "bash(git status*)": "prompt"}, "rule bash(git status*): prompt"),
    ],
)
def test_the_reason_names_the_rule(rules: dict[str, str], reason: str) -> None:
    assert Policy("yolo", rules).decide("bash", STATUS).reason == reason


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("mcp__*", "mcp__github_search", True),
        ("mcp__github_*", "mcp__github_search", True),
        ("mcp__github_*", "mcp__gitlab_search", False),
        ("mcp__*_search", "mcp__github_search", True),
        ("mcp__*_search", "mcp__github_search_all", False),
        ("*_delete*", "mcp__far_delete_all", True),
        ("mcp__a*b*c", "mcp__axxbyyc", True),
        ("mcp__a*b*c", "mcp__axxc", False),
        ("read", "readme", False),
        ("read", "Read", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aab", False),
        ("r[ae]*", "read", False),
        ("rea.", "read", False),
    ],
)
def test_names_and_patterns(pattern: str, name: str, matches: bool) -> None:
    assert (verdict({pattern: "deny"}, name, mode="yolo") == "deny") is matches


def test_the_longer_literal_part_wins() -> None:
    rules = {"mcp__*": "allow", "mcp__github_*": "prompt"}
    assert verdict(rules, "mcp__github_search", mode="yolo") == "prompt"
    assert verdict({"mcp__*": "prompt", "mcp__github_*": "allow"}, "mcp__github_search") == "allow"
    assert verdict({"*_a*": "allow", "b_*": "prompt"}, "b_a", mode="yolo") == "prompt"
    # Its stars do not make a pattern longer.
    assert verdict({"b*_*a*": "allow", "b_a*": "prompt"}, "b_a", mode="yolo") == "prompt"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("git status*", "git status", True),
        ("git status*", "git statusx", True),
        ("git status *", "git status", True),
        ("git status *", "git status -s", True),
        ("git status *", "git statusx", False),
        ("git * --stat", "git diff a --stat", True),
        ("git * --stat", "git --stat", False),
        ("git *", "gitk", False),
        ("make", "make all", False),
        ("* --version", "gcc --version", True),
        ("*", "anything at all", True),
    ],
)
def test_patterns_of_commands(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


def test_a_command_rule_is_for_its_tool_alone() -> None:
    assert verdict({"bash(git status*)": "allow"}, "shell") == "prompt"
    assert verdict({"bash(git status*)": "deny"}, "shell", mode="yolo") == "allow"


def test_a_line_that_nobody_knows_is_denied_and_not_allowed() -> None:
    unknown = Access("exec", "/lab", None)
    assert verdict({"bash(git *)": "deny"}, access=unknown, mode="yolo") == "deny"
    assert verdict({"bash(git *)": "prompt"}, access=unknown, mode="yolo") == "prompt"
    assert verdict({"bash(git *)": "allow"}, access=unknown) == "prompt"


def test_a_call_with_its_own_directory_or_variables_fits_no_allow() -> None:
    unusual = Access("exec", "/elsewhere", "git status", usual=False)
    assert verdict({"bash(git status)": "allow"}, access=unusual) == "prompt"
    assert verdict({"bash(*)": "allow"}, access=unusual) == "prompt"
    assert verdict({"bash(git status)": "deny"}, access=unusual, mode="yolo") == "deny"
    assert verdict({"bash(git status)": "prompt"}, access=unusual, mode="yolo") == "prompt"
    assert verdict({"bash": "allow"}, access=unusual) == "allow"


def test_only_yolo_without_rules_asks_nothing() -> None:
    assert Policy().asks_nothing
    assert not Policy("write").asks_nothing
    assert not Policy("yolo", {"bash": "allow"}).asks_nothing


@pytest.mark.parametrize(
    ("text", "name", "command"),
    [
        ("bash", "bash", None),
        ("mcp__*", "mcp__*", None),
        ("bash(git status*)", "bash", "git status*"),
        ("bash(echo (a))", "bash", "echo (a)"),
        ("bash(a\nb)", "bash", "a b"),
    ],
)
def test_rules_are_read_from_their_text(text: str, name: str, command: str | None) -> None:
    assert Rule.parse(text, "allow") == Rule(text, Verdict.ALLOW, name, command)


@pytest.mark.parametrize("pattern", ["rm  *", " rm *", "\trm\n *", "rm\t*"])
@pytest.mark.parametrize("rule", ["deny", "prompt", "allow"])
def test_blanks_in_a_rule_count_as_they_do_in_a_line(pattern: str, rule: str) -> None:
    access = Access("exec", "/lab", "rm   f")
    assert verdict({f"bash({pattern})": rule}, access=access, mode="yolo" if rule != "allow" else "always-ask") == rule


def test_a_call_that_changes_how_a_line_is_read_meets_every_rule_that_asks_or_denies() -> None:
    access = Access("exec", "/lab", "ls", usual=False, opaque=True)
    for rule in ("deny", "prompt"):
        assert verdict({"bash(rm *)": rule}, access=access, mode="yolo") == rule
    assert verdict({"bash(ls)": "allow"}, access=access) == "prompt"
