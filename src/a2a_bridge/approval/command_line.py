"""A shell line as the policy sees it: which simple commands it holds, and whether it is exactly one.

Two readers judge it, each where it errs to the safe side. What a `prompt` or `deny` looks for is sought in the tree
of a full bash grammar. An `allow` needs a line that also fits a grammar so small that it holds no operator, no
expansion and no escape: where it fits, there is nothing else that a shell could do with the line.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class SimpleCommand(msgspec.Struct, frozen=True):
    """What is known of a simple command: its words from the first on, and whether that is all of it."""

    text: str
    whole: bool


class CommandLine(msgspec.Struct, frozen=True):
    """A shell line. `only` is its text when it is one simple command of literal words and nothing else; `starts` are
    the beginnings of all its simple commands, None when the line cannot be read."""

    only: str | None
    starts: tuple[SimpleCommand, ...] | None


# A longer line is not read, nor one that takes the grammar more steps (it counts them by the hundred): no rule allows
# it, and every rule that asks or denies holds for it. Where a line is wrong, some repeats cost the grammar time by the
# cube of the length: 0.1 s at these bounds, half a second at twice the length. What people write takes 50 steps.
MOST_BYTES = 2048
MOST_STEPS = 110

# Of a command that runs what stands behind it, no more words are looked at; with more it may run anything.
MOST_CARRIED = 64

# Stands for a blank inside of one word, which a blank between two words of a rule does not match.
_INNER_BLANK = "\N{SYMBOL FOR SPACE}"
_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_TIGHT = frozenset({"concatenation", "simple_expansion"})
_ATOMS = frozenset({"string", "heredoc_body"})
_LINES = _COMMANDS | {"file_redirect"}
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect"})
# The grammar loses a `-` before a here-document.
_BLANKS = re.compile(rb"(?:[ \t\n]|\\\n)*(?:[ \t]-[ \t]+)?")
_LOST_DASH = re.compile(r"[ \t]-[ \t]")
_BRACE_OR_END = re.compile(r"(?<!\$)\{|\n")
_DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}", re.ASCII)
_BARE_BLANK = re.compile(r"(?<!\\)(?:\\\\)*\s")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(?:\[[^\[\]\s]+\])?\+?=", re.ASCII)
# As the first word without quotes, these are no command's name.
_RESERVED = {"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select"}
_RESERVED |= {"then", "until", "while", "time"}
_BESIDES = frozenset({"variable_assignment", "file_redirect"})
# They run what stands behind them, so a rule is sought there too. The grammar takes some for ordinary commands.
_CARRIERS = {"!", "time", "coproc", "exec", "command", "builtin", "env", "nohup", "nice", "ionice", "setsid"}
_CARRIERS |= {"stdbuf", "timeout", "sudo", "doas", "xargs", "busybox", "eval", "find", "watch", "flock", "chroot"}
_CARRIERS |= _RESERVED
_UNKNOWN = re.compile(r"[*?\[{$`]|(?:^|[=:])~")
_ANYTHING = SimpleCommand("", whole=False)
_UNREADABLE = CommandLine(None, None)
# An end of a line that a backslash takes away, and that joins what stands on both sides: the grammar sees two words.
_JOINT = r"(?<=[^\\ \t\n])\\\n|\\\\\\\n|\\[ \t]\\\n"
# Words that begin or end with a blank, which the grammar passes over.
_BLANK_FIRST = r"(?:^|[\s;&|()<>`])\\[ \t]"
_BLANK_LAST = r"\\[ \t](?:$|[\s;&|()<>`])"
# Blanks to the grammar, and to no shell.
_FALSE_BLANK = r"[^\S \t\n]"
_MISREAD = re.compile(f"\0|{_JOINT}|{_BLANK_FIRST}|{_BLANK_LAST}|{_FALSE_BLANK}")
_BACKTICK = re.compile(r"(?<!\\)(?:\\\\)*`")
# Substitutions that the grammar may take for text.
_SUBSTITUTION = re.compile(r"(?<!\\)(?:\\\\)*(?:`|[$<>]\()")
_TEXT_ALONE = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content", "heredoc_start"})
_PLAIN = r"[\w./:=,@%+-]"
_SINGLE = r"'[^'\x00-\x1f\x7f-\x9f]*'"
_DOUBLE = r'"[^"$`\\!\x00-\x1f\x7f-\x9f]*"'
_WORD = re.compile(rf"(?:{_PLAIN}|{_SINGLE}|{_DOUBLE})+", re.ASCII)
_QUOTED = re.compile(rf"{_SINGLE}|{_DOUBLE}")
_ONE_COMMAND = re.compile(rf" *{_WORD.pattern}(?: +{_WORD.pattern})* *\n*", re.ASCII)
_ASSIGNMENT = re.compile(r"\w+\+?=", re.ASCII)


def read(line: str) -> CommandLine:
    """Read a line of bash. Never raises."""
    return _UNREADABLE if len(line) > MOST_BYTES else _read(line)


@lru_cache(maxsize=64)
def _read(line: str) -> CommandLine:
    encoded = line.encode("utf-8", "surrogatepass")
    if len(encoded) > MOST_BYTES or _MISREAD.search(line):
        return _UNREADABLE
    root = _tree(encoded)
    if root is None:
        return _UNREADABLE
    nodes = list(_nodes(root))
    if root.has_error or _skips(encoded, nodes) or any(map(_hides, nodes)):
        return _UNREADABLE
    commands = [node for node in nodes if node.type in _COMMANDS]
    starts = tuple(start for node in commands for start in _starts(node))
    if "<<" in line and _LOST_DASH.search(line):
        starts = tuple(SimpleCommand(start.text, whole=False) for start in starts)
    single = len(commands) == 1 and root.named_child_count == 1 and root.named_children[0].type == "command"
    return CommandLine(_only(line) if single else None, starts)


def joined(words: list[str]) -> str:
    """Words as a rule sees them."""
    return " ".join(re.sub(r"\s", _INNER_BLANK, word) for word in words)


def _only(line: str) -> str | None:
    if not _ONE_COMMAND.fullmatch(line):
        return None
    written = _WORD.findall(line)
    words = [_QUOTED.sub(lambda found: found[0][1:-1], word) for word in written]
    # `%1` is a job, whatever its quotes.
    if not words[0] or words[0].startswith("%") or written[0] in _RESERVED or _ASSIGNMENT.match(words[0]):
        return None
    return joined(words)


@cache
def _parser() -> "Parser":
    # Most bridges have no rule for commands, and shall not pay for the grammar.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _tree(line: bytes) -> "Node | None":
    parser, steps = _parser(), count(1)
    try:
        # The second function says when it is enough.
        return parser.parse(lambda at, _: line[at:], progress_callback=lambda *_: next(steps) > MOST_STEPS).root_node
    except ValueError:
        parser.reset()
        return None


def _nodes(root: "Node") -> Iterator["Node"]:
    """All nodes, without recursion: a line may be nested as deep as it is long."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children)


def _hides(node: "Node") -> bool:
    """Whether a shell may find a command where the grammar found something else."""
    if node.type == "command_substitution" and node.children[0].type == "`":
        return "\\" in _text(node)
    if node.type == "expansion" and _BRACE_OR_END.search(_text(node)):
        return True
    if node.type == "heredoc_redirect":
        return _hides_in_document(node)
    if not node.children:
        return node.is_named and node.type not in _TEXT_ALONE and _hides_in_text(node)
    return _strays(node) or _parts_badly(node)


def _hides_in_text(node: "Node") -> bool:
    text = _text(node)
    return _SUBSTITUTION.search(text) is not None or (node.type == "word" and _BARE_BLANK.search(text) is not None)


def _hides_in_document(node: "Node") -> bool:
    """A here-document. On the line that begins it there may be another command, which has to end there too."""
    parts = {part.type: part for part in node.children}
    start, body = parts.get("heredoc_start"), parts.get("heredoc_body")
    if start is None or body is None or node.children_by_field_name("argument"):
        return True
    begun = (node.text or b"")[: body.start_byte - node.start_byte]
    quoted = re.search(r"['\"\\]", _text(start))
    return b"\n" in begun[:-1] or (not quoted and _BACKTICK.search(_text(body)) is not None)


def _strays(node: "Node") -> bool:
    """Words of a command that were taken for a redirection's, for an operand, or for what no shell would assign."""
    if node.type == "file_redirect":
        parts = [_text(part) for part in node.children]
        if node.children[0].type == "file_descriptor" and not _DESCRIPTOR.fullmatch(parts.pop(0)):
            return True
        return len(parts) > 2 or parts[-1].startswith("-")
    if node.type == "variable_assignment":
        return not _ASSIGNED.match(_text(node))
    return node.type == "command" and any(part.type in ("==", "=~") for part in node.children)


def _skips(line: bytes, nodes: "list[Node]") -> bool:
    """Whether the grammar passed over more than blanks."""
    at = 0
    for begin, end in sorted((one.start_byte, one.end_byte) for one in nodes if not one.children or one.type in _ATOMS):
        if not _BLANKS.fullmatch(line[at:begin]):
            return True
        at = max(at, end)
    return not _BLANKS.fullmatch(line[at:])


def _parts_badly(node: "Node") -> bool:
    """Whether one word was taken for two, two for one, or two commands for one."""
    whole, begin = node.text or b"", node.start_byte
    for one, other in zip(node.children, node.children[1:], strict=False):
        gap = whole[one.end_byte - begin : other.start_byte - begin]
        if node.type in _TIGHT and gap:
            return True
        if node.type in _LINES and b"\n" in gap.replace(b"\\\n", b""):
            return True
        if node.type in _COMMANDS and not gap and not {one.type, other.type} & _REDIRECTS:
            return True
    return False


def _starts(command: "Node") -> Iterator[SimpleCommand]:
    """The command as it is written, with its name less a directory, and what it carries."""
    skipped = _BESIDES if command.type == "command" else ()
    found = [_word(node) for node in command.children if node.type not in skipped]
    words = [SimpleCommand(joined([word.text]), word.whole) for word in found]
    yield from _named(words)
    if words and words[0].text.rpartition("/")[2] in _CARRIERS:
        if len(words) > MOST_CARRIED:
            yield _ANYTHING
        for index in range(1, min(len(words), MOST_CARRIED)):
            yield from _named(words[index:])


def _named(words: list[SimpleCommand]) -> Iterator[SimpleCommand]:
    yield _start(words)
    _, slash, base = words[0].text.rpartition("/") if words else ("", "", "")
    if words and not words[0].whole:
        yield _ANYTHING
    elif slash:
        yield _start([SimpleCommand(base, whole=True), *words[1:]])


def _start(words: list[SimpleCommand]) -> SimpleCommand:
    known: list[str] = []
    for word in words:
        known.append(word.text)
        if not word.whole:
            return SimpleCommand(" ".join(known), whole=False)
    return SimpleCommand(" ".join(known), whole=True)


def _word(node: "Node") -> SimpleCommand:
    """A word's text as the shell would make it, up to where only the shell knows."""
    match node.type:
        case "command_name" | "concatenation":
            return _concatenated(node.children)
        case "raw_string":
            return SimpleCommand(_text(node)[1:-1], whole=True)
        case "string":
            unknown = [part for part in node.named_children if part.type != "string_content"]
            if not unknown:
                return SimpleCommand(_unescaped(_text(node)[1:-1]), whole=True)
            known = (node.text or b"")[1 : unknown[0].start_byte - node.start_byte]
            return SimpleCommand(_unescaped(known.decode("utf-8", "surrogatepass")), whole=False)
        case "word" | "number" | "variable_name" | "test_operator":
            return _literal(_text(node))
    # What is left are signs of the language; a lone `$` or backtick may be the first half of something.
    return _ANYTHING if node.is_named or re.search("[$`]", _text(node)) else SimpleCommand(_text(node), whole=True)


def _concatenated(parts: "list[Node]") -> SimpleCommand:
    text = ""
    for part in parts:
        word = _word(part)
        text += word.text
        if not word.whole:
            return SimpleCommand(text, whole=False)
    return SimpleCommand(text, whole=True)


def _literal(text: str) -> SimpleCommand:
    bare = re.sub(r"\\(.)", "_", text, flags=re.DOTALL)
    unknown = _UNKNOWN.search(bare)
    if unknown is None:
        return SimpleCommand(re.sub(r"\\(.)", _escaped, text, flags=re.DOTALL), whole=True)
    return SimpleCommand(re.split(r"[\\*?\[{~$`]", text, maxsplit=1)[0], whole=False)


def _unescaped(text: str) -> str:
    """The inside of double quotes."""
    return re.sub(r"\\([$`\"\\\n])", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """A backslash takes itself away, and an end of a line too."""
    return "" if found[1] == "\n" else found[1]


def _text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "surrogatepass")
