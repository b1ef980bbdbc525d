"""Shell lines against rules: nothing gets past an `allow` beside its command, and no command hides from a `deny`.

The judge is a real shell in an empty directory, with no command in its reach (see shells.py).
"""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from a2a_bridge.approval import command_line
from a2a_bridge.approval.command_line import MOST_BYTES, MOST_CARRIED, joined, read
from a2a_bridge.approval.policy import Rule, Verdict, matches
from a2a_bridge.tool import Access
from tests.approval.shells import Ran, Shells
from tests.conftest import missing


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Shells:
    if not Path("/bin/bash").exists():
        missing("bash")
    return Shells(tmp_path_factory.mktemp("shells"))


def allows(rule: str, line: str) -> bool:
    return Rule("rule", Verdict.ALLOW, "bash", rule).matches("bash", Access("exec", "/", line))


def denies(rule: str, line: str) -> bool:
    """Whether a `deny` holds for the line; a `prompt` does just then too."""
    access = Access("exec", "/", line)
    denied, asked = (
        Rule("rule", verdict, "bash", rule).matches("bash", access) for verdict in (Verdict.DENY, Verdict.PROMPT)
    )
    assert denied is asked
    return denied


# Lines, made of what a shell has a meaning for. Half of them are a plain command into which little of it is put.

PLAIN = (
    "s",
    "rm",
    "git",
    "a",
    "-x",
    "./f",
    "a=b",
    "1",
    "'c  d'",
    '"e f"',
    "''",
    '"é"',
    "../s",
    "x:y",
    "%1",
    "@",
    "+",
    ",",
)
SIGNS = (
    *"'\"$`\\;&|<>(){}[]!#~*?^=\n\t\r\v\f\0\u00a0\u2028é%",
    *(
        "&&",
        "||",
        "|&",
        ">>",
        ">&",
        "<&",
        "&>",
        "2>&1",
        "2>",
        ">f",
        "</dev/null",
        "((",
        "))",
        "[[",
        "]]",
        "==",
        "=~",
        ";;",
    ),
    *("$(", "${", "$((", "$[", "<(", ">(", "@(", "+(", "!(", "{a,b}", "{1..3}", "$x", "${x}", '"$x"', "$$", "$?", "$@"),
    *(
        "<<E\n",
        "<<'E'\n",
        "<<-E\n",
        '<<"E"F\n',
        "<<\\E\n",
        "\nE\n",
        "\nEF\n",
        "<<<",
        "$'rm'",
        '$"rm"',
        "$'\\n'",
        "\\\n",
    ),
    *("a=b", "x+=y", "x[0]=1", "x=(", "PATH=x", "if", "then", "else", "fi", "for", "in", "do", "done", "case", "esac"),
    *("function", "select", "time", "{", "}", "!", "s()", "declare", "export", "unset", "local", "[", "test", "let"),
    *("eval", "exec", "command", "env", ".", "#", "//", ":-", "#$(rm)", "-", "--", "\\ ", "\\'", '\\"', "\\$", "\\`"),
)
BLANKS = st.sampled_from((" ", " ", " ", " ", "", "", "\n", " \\\n"))
FRAMES = (
    "{}; rm x",
    "rm x {}",
    "s $({})",
    "s `{}`",
    's "{}" && rm',
    "if s; then {}; fi",
    "f() {{ {}; }}; f",
    "cat <<E\n{}\nE\nrm x",
    "cat <<E | rm\n{}\nE",
    "s ${{x:-{}}} rm",
    "s > {}\nrm x",
    "case a in {}) rm;; *) git;; esac",
    "s # {}\nrm x",
    "a=({})",
    "s $(({}))",
    "[[ {} ]]",
    "{} rm x",
)


@st.composite
def words(draw: st.DrawFn, signs: st.SearchStrategy[str], most: int) -> str:
    parts = draw(st.lists(st.tuples(signs, BLANKS), max_size=most))
    return "".join(part for pair in parts for part in pair)


@st.composite
def nearly_plain(draw: st.DrawFn) -> str:
    """One command of literal words, with up to two signs put in anywhere."""
    line = " ".join(draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=5)))
    for sign in draw(st.lists(st.sampled_from(SIGNS), max_size=2)):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + sign + line[at:]
    return line


WILD = words(st.sampled_from((*PLAIN, *SIGNS)), most=8)
FRAMED = st.builds(str.format, st.sampled_from(FRAMES), words(st.sampled_from((*PLAIN, *SIGNS)), most=4))
MANY = settings(
    max_examples=400, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@MANY
@given(line=st.one_of(nearly_plain(), WILD))
@example(line="time s")
@example(line="coproc s")
@example(line="then s")
@example(line="%1 s")
@example(line="'a b' c")
@example(line="s 'a\u00a0b'")
@example(line=" s  a \n\n")
def test_what_only_says_is_all_that_a_shell_starts(shells: Shells, line: str) -> None:
    only = read(line).only
    if only is None:
        return
    check_single(shells.bash(line), only)
    if shutil.which("dash") and only.partition(" ")[0] in shells.stubs:
        check_single(shells.dash(line), only)


def check_single(ran: Ran, only: str) -> None:
    """One command with these words was started, or a program in a directory was looked for in vain; nothing else."""
    name = only.partition(" ")[0]
    if ran.started:
        assert [joined(found) for found in ran.started] == [only]
        assert ran.complaints == ""
    else:
        assert "/" in name
        assert ran.complaints.count("\n") == 1
        assert joined([f"{name}: "]) in joined([ran.complaints])
    assert ran.left == []


@MANY
@given(line=st.one_of(WILD, FRAMED))
@example(line="s >f -x")
@example(line="s a\n\\rm x")
@example(line="s > f\n\\rm x")
@example(line="r\\\nm x")
@example(line="cat <<E\n`rm x`\nE")
@example(line="cat <<E | \nE\nrm x")
@example(line="s $(s == ; rm x)")
@example(line="s -\\\r\n rm x")
@example(line="s ${x//{a,b} ==\nrm /}")
@example(line="`echo \\`rm\\``")
@example(line="> $\n rm x")
@example(line="cat - <<E\nE")
@example(line='s "$(\\ rm x)"')
@example(line="cat <<E | \nE\nrm - <<E\nE")
@example(line="-2>&1 ]")
@example(line="local$@$$ $@")
@example(line="unset s$'rm' x")
@example(line="eval\n\\\\")
@example(line="a[if\\ x[0]=1 s]=1 rm x")
@example(line="s $ x")
def test_no_command_that_a_shell_starts_hides_from_a_rule(shells: Shells, line: str) -> None:
    if "\0" in line or read(line).starts is None:
        assert denies("any other", line)
        return
    for found in shells.bash(line).started:
        whole = joined(found)
        assert denies(whole, line), whole
        assert denies(f"{joined(found[:1])} *", line), whole


# By hand: what has been tried to get a second command past an `allow`.

STATUS = "git status*"


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git  status -s",
        "git status\n",
        " git status",
        "git 'status'",
        'git "status" -- "a b"',
        'g"it" status',
    ],
)
def test_an_allow_lets_its_command_through(line: str) -> None:
    assert allows(STATUS, line)


@pytest.mark.parametrize(
    "line",
    [
        "git status; rm x",
        "git status && rm x",
        "git status || rm x",
        "git status | rm x",
        "git status |& rm x",
        "git status & rm x",
        "git status &",
        "git status\nrm x",
        "git status\r\nrm x",
        "git status\rrm x",
        "git status\u2028rm x",
        "git status\u0085rm x",
        "git status\vrm x",
        "git\u00a0status",
        "git\u3000status",
        "\ufeffgit status",
        "git status\t-s",
        "git status $(rm x)",
        "git status `rm x`",
        'git status "$(rm x)"',
        'git status "`rm x`"',
        "git status <(rm x)",
        "git status >(rm x)",
        "git status > x",
        "git status >> x",
        "git status < x",
        "git status 2>&1",
        "git status <<E\n$(rm)\nE",
        "git status <<<x",
        "git status # x",
        "git status #\nrm x",
        "git status $x",
        "git status ${x}",
        'git status "$x"',
        "git status $'a'",
        'git status $"a"',
        "git status *",
        "git status a?",
        "git status [a]",
        "git status {a,b}",
        "git status ~",
        "git status !x",
        'git status "!x"',
        "git status \\\nrm",
        "git status \\; rm",
        'git status "a\\"; rm x; \\"b"',
        "git status 'a'\\''; rm x; '",
        "git status 'a\nb'",
        "git status \x01",
        "git status '\x01'",
        "git status \x7f",
        "git status \0; rm x",
        "PATH=. git status",
        "a[0]=1 git status",
        "GIT_PAGER=x git status",
        "env PATH=. git status",
        "/tmp/git status",
        "./git status",
        "\\git status",
        '"git status"',
        "'git status' x",
        "'' git status",
        '"" git status',
        "! git status",
        "time git status",
        "coproc git status",
        "command git status",
        "exec git status",
        "(git status)",
        "{ git status; }",
        "git() { rm x; }; git status",
        "alias git=rm\ngit status",
        "if git status; then rm x; fi",
        "git status (",
        "git status '",
        "git status" + " x" * MOST_BYTES,
        "gît status",
        "gіt status",
        "",
        "\n",
        "git",
        "git stash",
        "GIT status",
    ],
)
def test_an_allow_lets_nothing_else_through(line: str) -> None:
    assert not allows(STATUS, line)


def test_an_allow_of_everything_is_for_single_literal_commands_too() -> None:
    assert allows("*", "anything at all")
    assert not allows("*", "a; b")
    assert not allows("*", "a=b")
    assert not allows("*", "a=b c")
    assert not allows("*", "%1")


def test_a_single_command_may_still_start_others_as_the_docs_say() -> None:
    assert allows("git *", "git -c core.pager=x log")
    assert allows("git -c *", "git -c 'core.pager=rm x' log")


def test_quotes_do_not_make_two_words_one() -> None:
    assert read("git 'a b' \"c\td\"").only is None
    assert read("git 'a b' c").only == joined(["git", "a b", "c"]) != "git a b c"
    assert not allows("git a b", "git 'a b'")
    assert allows("git a *", "git a 'b c'")


# By hand: what has been tried to hide `rm` from a `deny` or a `prompt`.


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "rm",
        "\trm x",
        "s; rm x",
        "s;rm x",
        "s && rm x",
        "s || rm x",
        "s | rm x",
        "s |& rm x",
        "s & rm x",
        "s &\nrm x",
        "s\nrm x",
        "s # x\nrm x",
        "s # x \\\nrm x",
        "(rm x)",
        "( (rm x) )",
        "{ rm x; }",
        "f() { rm x; }",
        "f() ( rm x )",
        "function f { rm x; }",
        "for i in a; do rm x; done",
        "for ((i=0; i<1; i++)); do rm x; done",
        "for i in $(rm x); do s; done",
        "while rm x; do s; done",
        "until s; do rm x; done",
        "select i in a; do rm x; done",
        "case x in x) rm x;; esac",
        "case $(rm x) in x) s;; esac",
        "if rm x; then s; fi",
        "if s; then s; elif rm x; then s; fi",
        "if s; then s; else rm x; fi",
        "s $(rm x)",
        "s `rm x`",
        "s `s \\`rm x\\``",
        "s `s \\$(rm x)`",
        's "$(rm x)"',
        's "`rm x`"',
        's "a${b:-$(rm x)}"',
        's "${b:-`rm x`}"',
        "s ${b/$(rm x)/}",
        "s ${b#$(rm x)}",
        "s $((1 + $(rm x)))",
        "(( $(rm x) ))",
        "[[ -n $(rm x) ]]",
        "[ -n $(rm x) ]",
        "test `rm x`",
        "s <(rm x)",
        "s >(rm x)",
        "s > $(rm x)",
        "s <<< $(rm x)",
        "a=$(rm x)",
        "a=(`rm x`)",
        "a[$(rm x)]=1",
        "export a=$(rm x)",
        "declare -a a=($(rm x))",
        "cat <<E\n$(rm x)\nE",
        "cat <<E\n`rm x`\nE",
        "cat <<-E\n\t${a:-$(rm x)}\n\tE",
        "cat <<E | rm x\nE",
        "cat <<E && rm x\nE",
        "cat <<E |\nE\nrm x",
        "cat <<'E'\nE\nrm x",
        'cat <<E"F"\nE\nEF\nrm x',
        "cat <<\\E\nE\nrm x",
        "cat <<E\n'\nE\nrm x\n'",
        "r'm' x",
        '"rm" x',
        'r"m" x',
        "r''m x",
        "\\rm x",
        "r\\m x",
        "r\\\nm x",
        "\\\nrm x",
        "s\\\n;rm x",
        "s \\\r\nrm x",
        "$'rm' x",
        "$'\\x72m' x",
        '$"rm" x',
        "$a x",
        "${a} x",
        '"$a" x',
        "r$a x",
        "$(s) x",
        "`s` x",
        "r? x",
        "r* x",
        "[r]m x",
        "{rm,x}",
        "r{m,n} x",
        "+(rm) x",
        "~/x",
        "/bin/rm x",
        "../rm x",
        "/bin/r? x",
        "/b*/rm x",
        "/*/r\\m x",
        "$a/rm x",
        "a=b rm x",
        "a[0]=b rm x",
        "a=b c=d /bin/rm x",
        ">f rm x",
        ">f a=b rm x",
        "2>&1 rm x",
        "<f rm x",
        "<<E rm x\nE",
        "rm>f x",
        "rm<f",
        "rm&",
        "! rm x",
        "time rm x",
        "time -p rm x",
        "coproc rm x",
        "coproc A { rm x; }",
        "exec rm x",
        "exec -a s rm x",
        "command rm x",
        "command -p rm x",
        "builtin rm x",
        "eval rm x",
        "eval 'rm x'",
        "env rm x",
        "env -i A=1 rm x",
        "/usr/bin/env rm x",
        "en? rm x",
        "$a rm x",
        "sudo rm x",
        "sudo -u root /bin/rm x",
        "doas rm x",
        "nohup rm x",
        "nice -n 5 rm x",
        "timeout 5 rm x",
        "stdbuf -o0 rm x",
        "setsid rm x",
        "xargs rm",
        "s | xargs -0 -n1 rm",
        "find . -exec rm {} +",
        "sudo env A=1 nice /bin/rm x",
        "sudo " + "-a " * MOST_CARRIED + "rm x",
        "s $(s == ; rm x)",
        "s =~ ; rm x",
        "s ${x//{a,b} /\nrm x}",
        "rm 'x",
        "s (; rm x",
        "s )",
        "if rm x",
        "rm\u00a0x",
        "s\u2028rm x",
        "s \0 rm x",
        "s" + " x" * MOST_BYTES + "; rm x",
        "s '" + "é" * (MOST_BYTES // 2) + "'; rm x",
    ],
)
def test_nothing_hides_a_command_from_a_deny(line: str) -> None:
    assert denies("rm*", line)


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf x",
        "rm  -rf x",
        "rm '-rf' x",
        "rm -r\\f x",
        "rm -\\\nrf x",
        "rm \\\n -rf x",
        "rm >f -rf x",
        "rm 2>&1 -rf x",
        "rm <<E -rf x\nE",
        "s | rm >f -rf x",
        "rm $a",
        "rm -r$a",
        "rm -{r,f}",
        "rm -r*",
        "rm $'-rf' x",
        "rm - <<E\nE",
    ],
)
def test_nothing_hides_an_argument_from_a_deny(line: str) -> None:
    assert denies("rm -rf*", line)


@pytest.mark.parametrize(
    "line",
    [
        "echo rm x",
        "echo 'rm x; rm y'",
        "git rm x",
        "s # rm x",
        "cat <<'E'\n`rm x` $(rm x)\nE",
        "cat <<E\nrm x\nE",
        "s >rm",
        "python3 - <<'E'\nimport os\n\nprint(`1`)\nE",
        "make -j4 2>&1 | tail -5",
        "if [ -f x ]; then\n  make all\nelse\n  echo no\nfi",
        'for i in a b\ndo\n  echo "$i"\ndone > out',
        "a=$(git log --format='%h %s' | head -3)\necho \"$a\"",
        "curl -s \\\n  -H 'A: b' \\\n  http://x/y",
        'git commit -m "\\`rm\\` and more"',
        "[[ $x =~ ^a.*$ ]] && echo yes",
        "firmware x",
    ],
)
def test_a_deny_does_not_hold_for_what_only_speaks_of_the_command(line: str) -> None:
    assert not denies("rm*", line)


def test_a_line_that_cannot_be_read_fits_no_allow_and_every_deny() -> None:
    for line in ("s '", "s (", "s" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1), "s\0"):
        assert (read(line).only, read(line).starts) == (None, None)
        assert denies("nothing like it", line)
        assert not allows("*", line)
    assert read("s" * MOST_BYTES).only == "s" * MOST_BYTES


NASTY = (
    "(",
    "{ ",
    "[[ ",
    "((",
    "$(",
    "`",
    "${x:-",
    '"$(',
    "<(",
    "'",
    "\\",
    "! ",
    "sudo ",
    "a|",
    "a=(",
    "+(",
    "<<E\n",
    "if ",
    ">x `",
    "''$(;;",
)


@pytest.mark.parametrize("unit", NASTY)
def test_the_longest_line_of_nasty_repeats_is_read(unit: str) -> None:
    line = unit * (MOST_BYTES // len(unit))
    found = read(line)
    assert sum(len(start.text) for start in found.starts or ()) <= MOST_BYTES * MOST_CARRIED


def test_a_line_of_too_many_steps_is_not_read_and_spoils_no_other() -> None:
    costly, dense = "a|" * (MOST_BYTES // 2 - 1) + "a", "a b; " * 400
    assert read(costly) == read("s )")
    assert len(read(costly[: MOST_BYTES // 2 - 1]).starts or ()) == MOST_BYTES // 4
    assert len(read(dense).starts or ()) == 400
    assert denies("rm*", dense + "rm x")
    assert not denies("rm*", dense)


def test_a_long_line_is_not_remembered() -> None:
    before = command_line._read.cache_info().currsize
    read("s" * 10_000_000)
    assert command_line._read.cache_info().currsize == before


@given(pattern=st.text("ab *", max_size=6), text=st.text("ab ", max_size=6))
def test_patterns_fit_as_by_trying_every_way(pattern: str, text: str) -> None:
    def by_trying(rest: str, of: str) -> bool:
        if not rest:
            return not of
        if rest[0] == "*":
            return by_trying(rest[1:], of) or (bool(of) and by_trying(rest, of[1:]))
        return bool(of) and rest[0] == of[0] and by_trying(rest[1:], of[1:])

    without_end = pattern[:-2] if pattern.endswith(" *") else pattern
    expected = by_trying(pattern, text) or (without_end != pattern and matches(without_end, text))
    assert matches(pattern, text) is expected
