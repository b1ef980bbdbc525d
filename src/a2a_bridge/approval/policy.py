"""Whether a call runs, is asked about, or is refused: one pure table of mode, rules and tier.

1. Any rule that matches and says `deny` decides.
2. Otherwise the most specific kind of rule that matches does: a command's beginning, then a tool's name, then a
   pattern (the longer literal part first); within one kind `prompt` beats `allow`.
3. Where no rule matches, the mode decides by the call's tier.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from a2a_bridge.approval.command_line import CommandLine, SimpleCommand, read
from a2a_bridge.tool import Access, Tier

Mode = Literal["yolo", "write", "always-ask"]


class Verdict(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    PROMPT = "prompt"
    DENY = "deny"


class Decision(msgspec.Struct, frozen=True):
    """A verdict and what decided it, for people and for the audit log."""

    verdict: Verdict
    reason: str


_ALLOW, _PROMPT = Verdict.ALLOW, Verdict.PROMPT
MODES: Mapping[Mode, Mapping[Tier, Verdict]] = {
    "always-ask": {"read": _ALLOW, "write": _PROMPT, "exec": _PROMPT},
    "write": {"read": _ALLOW, "write": _ALLOW, "exec": _PROMPT},
    "yolo": {"read": _ALLOW, "write": _ALLOW, "exec": _ALLOW},
}

_COMMAND_RULE = re.compile(r"([^()*]+)\((.+)\)\Z", re.DOTALL)
_COMMAND, _NAME, _PATTERN = range(3)


class Rule(msgspec.Struct, frozen=True):
    """One row of `tools.approval`: `name` may hold `*`; `command` is the pattern of a shell line's beginning."""

    text: str
    verdict: Verdict
    name: str
    command: str | None = None

    @classmethod
    def parse(cls, text: str, verdict: str) -> "Rule":
        """`bash`, `mcp__github_*` or `bash(git status*)`, as the settings check it."""
        found = _COMMAND_RULE.match(text)
        if not found:
            return cls(text, Verdict(verdict), text)
        # As the words of a line are joined, or the rule could never match.
        pattern = re.sub(r"\s+", " ", found[2]).lstrip()
        return cls(text, Verdict(verdict), found[1], pattern)

    @property
    def kind(self) -> tuple[int, int]:
        """How specific it is, the lesser the more."""
        if self.command is not None:
            return _COMMAND, 0
        if "*" not in self.name:
            return _NAME, 0
        return _PATTERN, -len(self.name.replace("*", ""))

    def matches(self, name: str, access: Access) -> bool:
        if not matches(self.name, name):
            return False
        if self.command is None:
            return True
        if access.command is None:  # a line that nobody knows: as one that cannot be read
            return self.verdict is not Verdict.ALLOW
        line = read(access.command)
        return self._allows(line, access) if self.verdict is Verdict.ALLOW else access.opaque or self._meets(line)

    def _allows(self, line: CommandLine, access: Access) -> bool:
        """Only a line that is this one command, run where and as the owner would think."""
        return access.usual and line.only is not None and matches(self.command or "", line.only)

    def _meets(self, line: CommandLine) -> bool:
        """Any simple command of the line, and what may be one."""
        return line.starts is None or any(_may_fit(self.command or "", start) for start in line.starts)


class Policy:
    """The owner's mode and rules."""

    def __init__(self, mode: Mode = "yolo", rules: Mapping[str, str] | None = None) -> None:
        self.mode = mode
        parsed = [Rule.parse(text, verdict) for text, verdict in (rules or {}).items()]
        # Of equals the one that asks comes first.
        self.rules = tuple(sorted(parsed, key=lambda rule: (rule.kind, rule.verdict is _ALLOW)))
        self.asks_nothing = mode == "yolo" and not self.rules

    def decide(self, name: str, access: Access) -> Decision:
        matching = [rule for rule in self.rules if rule.matches(name, access)]
        denying = [rule for rule in matching if rule.verdict is Verdict.DENY]
        for rule in (denying or matching)[:1]:
            return Decision(rule.verdict, f"rule {rule.text}: {rule.verdict}")
        return Decision(MODES[self.mode][access.tier], f"mode {self.mode}, tier {access.tier}, no rule")


def matches(pattern: str, text: str) -> bool:
    """Whether the text is the pattern with any characters for each `*`; a final ` *` may also stand for nothing."""
    if pattern.endswith(" *") and matches(pattern[:-2], text):
        return True
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    last = rest.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in rest:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _may_fit(pattern: str, start: SimpleCommand) -> bool:
    """Whether the command could be one of the pattern's, as far as its beginning is known."""
    if start.whole:
        return matches(pattern, start.text)
    literal = pattern.partition("*")[0]
    return literal.startswith(start.text) or start.text.startswith(literal)
