"""A shell line as the policy sees it: which simple commands it holds, and whether it is exactly one.

Two readers judge it, each where it errs to the safe side. What a `prompt` or `deny` looks for is sought in the tree
of a full bash grammar. An `allow` needs a line that also fits a grammar so small that it holds no operator, no
expansion and no escape: where it fits, there is nothing else that a shell could do with the line.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# A longer line is not read: no rule allows it, and every rule that asks or denies holds for it. A slip at its end
# costs the grammar time by the cube of the length, 0.09 s at this one.
MOST_BYTES = 4096

# Stands for a blank inside of one word, which a blank between two words of a rule does not match.
_INNER_BLANK = "\N{SYMBOL FOR SPACE}"
_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
# They run what stands behind them, so a rule is sought there too. The grammar takes some for ordinary commands.
_CARRIERS = {"!", "time", "coproc", "exec", "command", "builtin", "env", "nohup", "nice", "ionice", "setsid"}
_CARRIERS |= {"stdbuf", "timeout", "sudo", "doas", "xargs", "busybox"}
_UNKNOWN = re.compile(r"[*?\[{]|^~")

_PLAIN = r"[\w./:=,@%+-]"
_SINGLE = r"'[^'\x00-\x1f\x7f-\x9f]*'"
_DOUBLE = r'"[^"$`\\!\x00-\x1f\x7f-\x9f]*"'
_WORD = re.compile(rf"(?:{_PLAIN}|{_SINGLE}|{_DOUBLE})+", re.ASCII)
_ONE_COMMAND = re.compile(rf" *{_WORD.pattern}(?: +{_WORD.pattern})* *\n*", re.ASCII)
_ASSIGNMENT = re.compile(r"\w+\+?=", re.ASCII)


class Start(msgspec.Struct, frozen=True):
    """What is known of a simple command: its words from the first on, and whether that is all of it."""

    text: str
    whole: bool


class Line(msgspec.Struct, frozen=True):
    """A shell line. `only` is its text when it is one simple command of literal words and nothing else; `starts` are
    the beginnings of all its simple commands, None when the line cannot be read."""

    only: str | None
    starts: tuple[Start, ...] | None


@lru_cache(maxsize=64)
def read(line: str) -> Line:
    """Read a line of bash. Never raises."""
    encoded = line.encode("utf-8", "surrogatepass")
    if len(encoded) > MOST_BYTES or "\0" in line:
        return Line(None, None)
    root = _parser().parse(encoded).root_node
    if root.has_error:
        return Line(None, None)
    commands = [node for node in _nodes(root) if node.type in _COMMANDS]
    starts = tuple(start for node in commands for start in _starts(node))
    single = len(commands) == 1 and root.named_child_count == 1 and root.named_children[0].type == "command"
    return Line(_only(line) if single else None, starts)


def joined(words: list[str]) -> str:
    """Words as a rule sees them."""
    return " ".join(re.sub(r"\s", _INNER_BLANK, word) for word in words)


def _only(line: str) -> str | None:
    if not _ONE_COMMAND.fullmatch(line):
        return None
    words = [re.sub("['\"]", "", word) if _simple(word) else _unquoted(word) for word in _WORD.findall(line)]
    return None if not words[0] or _ASSIGNMENT.match(words[0]) else joined(words)


def _simple(word: str) -> bool:
    return "'" not in word and '"' not in word


def _unquoted(word: str) -> str:
    return re.sub(rf"{_SINGLE}|{_DOUBLE}", lambda found: found[0][1:-1], word)


@cache
def _parser() -> "Parser":
    # Most bridges have no rule for commands, and shall not pay for the grammar.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _nodes(root: "Node") -> Iterator["Node"]:
    """All nodes, without recursion: a line may be nested as deep as it is long."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)


def _starts(command: "Node") -> Iterator[Start]:
    """The command as it is written, with its name less a directory, and what it carries."""
    words = [
        _word(node) for node in command.named_children if node.type not in ("variable_assignment", "file_redirect")
    ]
    if command.type != "command":
        words = [_word(node) for node in command.children]
    yield from _named(words)
    if words and words[0].text.rpartition("/")[2] in _CARRIERS:
        for index in range(1, len(words)):
            yield from _named(words[index:])


def _named(words: list[Start]) -> Iterator[Start]:
    yield _start(words)
    _, slash, base = words[0].text.rpartition("/") if words else ("", "", "")
    if slash:
        yield _start([Start(base, words[0].whole), *words[1:]])


def _start(words: list[Start]) -> Start:
    known: list[str] = []
    for word in words:
        known.append(word.text)
        if not word.whole:
            return Start(joined(known), whole=False)
    return Start(joined(known), whole=True)


def _word(node: "Node") -> Start:
    """A word's text as the shell would make it, up to where only the shell knows."""
    match node.type:
        case "command_name" | "concatenation":
            return _concatenated(node.children)
        case "raw_string":
            return Start(_text(node)[1:-1], whole=True)
        case "string":
            inner = node.named_children
            if all(part.type == "string_content" for part in inner):
                return Start(re.sub(r"\\([$`\"\\\n])", _escaped, _text(node)[1:-1]), whole=True)
            return Start(_text(inner[0]) if inner[0].type == "string_content" else "", whole=False)
        case "word" | "number" | "variable_name" | "test_operator":
            return _literal(_text(node))
    return Start(_text(node), whole=True) if not node.is_named else Start("", whole=False)


def _concatenated(parts: "list[Node]") -> Start:
    text = ""
    for part in parts:
        word = _word(part)
        text += word.text
        if not word.whole:
            return Start(text, whole=False)
    return Start(text, whole=True)


def _literal(text: str) -> Start:
    bare = re.sub(r"\\(.)", "_", text, flags=re.DOTALL)
    unknown = _UNKNOWN.search(bare)
    if unknown is None:
        return Start(re.sub(r"\\(.)", _escaped, text, flags=re.DOTALL), whole=True)
    return Start(re.split(r"[\\*?\[{~]", text, maxsplit=1)[0], whole=False)


def _escaped(found: re.Match[str]) -> str:
    """A backslash takes itself away, and an end of a line too."""
    return "" if found[1] == "\n" else found[1]


def _text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "surrogatepass")
