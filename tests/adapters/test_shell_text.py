"""Shell texts taken apart: nothing is run, bash agrees about what is sound, and every program is found."""

import random
import subprocess
import sys
import time

import pytest

from ordain.adapters.shell_text import ShellText
from ordain.core.lint.script import (
    AndOr,
    Background,
    Condition,
    Group,
    Negated,
    Opaque,
    Pipeline,
    Simple,
    constant_status,
    programs,
    unwrapped,
)

READER = ShellText()


def bash_accepts(text):
    done = subprocess.run(["bash", "--noprofile", "--norc", "-n"], input=text.encode(), capture_output=True)
    return done.returncode == 0 and not done.stderr.strip()


TEXTS = [
    "echo 'a",
    'echo "a',
    "if true; then",
    "fi",
    "then",
    "a && ",
    "&& a",
    "a | ",
    "| a",
    "a ;; b",
    "for x in a b",
    "for x in a b; do c; done",
    "while a; do b; done",
    "until a; do b",
    "$(",
    "$(a",
    "`a",
    "case x in",
    "case x in a) b;; esac",
    "select x in a; do b; done",
    "}",
    "{ a; }",
    "{ a }",
    "( a",
    "( a )",
    "a ) b",
    "[[ -f x ]]",
    "[[ -f x",
    "[ -f x ]",
    "cat <<'E'\nx\nE",
    "cat <<E\n$(a)\nE\n",
    "cat <<E\nx\n",
    "echo $((1+1))",
    "echo $((1+",
    "((i++))",
    "f() { :; }; f",
    "function f { a; }",
    "f() {",
    "a > ",
    "a > \nb",
    "a >& 2",
    "a 2>&1 | b",
    "a |& b",
    "! a | b",
    "! ! a",
    "time a",
    "coproc a",
    "A=1 B=2 c",
    "a=(1 2)",
    "a=(1 2",
    "echo {a,b}",
    "echo ${x:-y}",
    "echo ${x",
    "echo $'a\\n'",
    "if a; then b; elif c; then d; else e; fi",
    "a &",
    "a & b",
    "a & ; b",
    "# only a comment",
    "\\ls",
    "a\\\nb",
    "\n\na\n\n",
    "!",
    "{",
    "[[ ]]",
    "esac",
    "do",
    "a; done",
    "é && ü",
    "} {",
    "! { a",
]


@pytest.mark.parametrize("text", TEXTS)
def test_bash_agrees(text):
    script, fault = READER.read(text)
    assert (fault is None) == bash_accepts(text)
    assert script is None or fault is None


WORDS = (
    "a b -x | || && ; & ( ) { } if then fi else for in do done while case esac ;; $( ` 'q' \"d\" $v ${v} > < 2>&1 "
    "! [ ] [[ ]] -f == A=1 f() # * ' \" |& time true \\ \n <<<"
)


def test_bash_agrees_about_texts_at_random():
    words = WORDS.split(" ")
    choose = random.Random(7)
    reader, doubtful = ShellText(), 0
    for _ in range(400):
        text = " ".join(choose.choice(words) for _ in range(choose.randint(1, 6)))
        if text.strip():
            fault = reader.read(text)[1]
            assert (fault is None) == bash_accepts(text), text
            doubtful += 1
    assert doubtful > 300


def script(text):
    found, fault = READER.read(text)
    assert fault is None
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pytest -q", ["pytest"]),
        ("A=1 pytest", ["pytest"]),
        ("a && b || c; d\ne & f | g", ["a", "b", "c", "d", "e", "f", "g"]),
        ('test "$(a "$(b)")" = `c`', ["a", "b", "c"]),
        ("cat <<E\n$(a b)\nE", ["cat", "a"]),
        ("cat <<'E'\n$(a b)\nE", ["cat"]),
        ("case $x in a) b;; *) c;; esac", ["b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("for i in $(a); do b; done < <(c)", ["a", "b", "c"]),
        ("f() { a; }; f; b", ["a", "b"]),
        ("(a; { b; })", ["a", "b"]),
        ("! a", ["a"]),
        ("[ -f x ] && [[ -d y ]] && test -e z && echo x", []),
        ("env -u C A=b a", ["env", "a"]),
        ("timeout -k 5 10 nice -n 3 a", ["timeout", "nice", "a"]),
        ("find . | xargs -n 1 -I {} a {}", ["find", "xargs", "a"]),
        ("sudo -u me A=b a", ["sudo", "a"]),
        ("uv run --with x pytest", ["uv"]),
        ("uv sync", ["uv"]),
        ("exec a; command b; time c", ["a", "b", "c"]),
        ('"$P" x; $Q; \'a\' b; "c" d; \\e; ./f/g', ["a", "c", "e", "./f/g"]),
        ("x=$(a); export Y=$(b)", ["a", "b"]),
    ],
)
def test_every_program_is_found(text, found):
    assert sorted(programs(script(text))) == sorted(found)


CONSTANT = [
    "true", ":", "false", "exit 0", "exit 3", "exit", "echo ok", "echo", "printf x", "printf '%s' x", "X=1",
    "export X=1", "test 1 = 1", "test 1 = 2", "test 1 != 2", "test x", "test", "test ''", "[ -n x ]", "[ -z x ]",
    "[ -z '' ]",
    "[ 1 -eq 1 ]", "[ 1 -gt 2 ]", "[ 2 -ge 2 ]", "[ 1 -lt a ]", "[[ a == a ]]", "[[ a < b ]]", "[[ -n x && 1 == 1 ]]",
    "test ! 1 = 2", "test ! x", "! test 1 = 2", "test 1 = 2 -o a = a", "test 1 = 1 -a a = b", "(true)", "{ true; }",
    "(false)", "true; # ok", "false || true # ok", "true && true", "true && false", "false || false", "true | true",
    "true | false", "(exit 3)", "if false; then echo a; fi", "if true; then echo a; else echo b; fi", "f() { false; }",
    "for i in a b; do echo $i; done", "while false; do :; done", "set -e", "echo $(false)", "timeout 5 true",
    "sleep 0 &", "command false", "env A=b true", "true\n\n# c\n", "unset X",
]  # fmt: skip


@pytest.mark.parametrize("text", CONSTANT)
def test_a_constant_status_is_the_one_that_bash_gives(text):
    done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text], capture_output=True)
    assert constant_status(script(text)) == done.returncode


@pytest.mark.parametrize(
    "text",
    [
        "test -f x", "test -n \"$X\"", "test -n *", "[ -v X ]", "[ x -nt y ]", "test -t 1", "X=$(a)", "a", "a; echo ok",
        "a | true", "printf %d x", "exit $?", "a; exit", "bash -c true", "f() { a; }; f",
        "for i in a; do test -s $i; done", "if a; then b; fi", "test 1 = 1 && a", "case x in x) a;; esac",
        "(a)", "! a", "test a = \"$(b)\"", "a & wait",
    ],
)  # fmt: skip
def test_what_depends_on_the_world_is_not_constant(text):
    assert constant_status(script(text)) is None


def test_wrapped_commands_are_unwrapped():
    assert unwrapped(("timeout", "5", "uv", "run", "--with", "x", "true")) == ("true",)
    assert unwrapped(("env",)) == ("env",)
    assert unwrapped(("run", "a")) == ("run", "a")
    assert unwrapped((None, "a")) == (None, "a")


A, B, C = (Simple((name,)) for name in "abc")


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("a", (A,)),
        ('a \'x y\' "z" $v w"$v"', (Simple(("a", "x y", "z", None, None)),)),
        ("a; b\nc", (A, B, C)),
        ("a && b || c", (AndOr(A, (("&&", B), ("||", C))),)),
        ("! a | b", (Negated(Pipeline((A, B))),)),
        ("a | b >x 2>&1", (Pipeline((A, B)),)),
        ("{ a; b; } > x", (Group((A, B)),)),
        ("(a && b)", (Group((AndOr(A, (("&&", B),)),)),)),
        ("a &", (Background(A),)),
        ("if a; then b; fi", (Condition(((B,), ())),)),
        ("if a; then b; else c; fi", (Condition(((B,), (C,))),)),
        ("if a; then b; elif b; then c; fi", (Condition(((B,), (C,), ())),)),
        ("for i in a; do b; done", (Condition(((B,), ())),)),
        ("while a; do b; c; done", (Condition(((B, C), ())),)),
        ("x=1", (Simple((":",)),)),
        ("x=1; y=2 z=3", (Simple((":",)), Simple((":",)))),
        ("x=$(a)", (Opaque(),)),
        ("export x=$(a)", (Simple(("export",)),)),
        ("f() { a; }", (Simple((":",)),)),
        ("case x in a) b;; esac", (Opaque(),)),
        ("[ -n 'a b' ]", (Simple(("[", "-n", "a b", "]")),)),
        ('[ "$x" = "a" ]', (Simple(("[", None, "=", None, "]")),)),
        ("# nothing", ()),
    ],
)
def test_the_shape_of_a_text(text, statements):
    assert script(text).statements == statements


@pytest.mark.parametrize(
    "text",
    ["${" * 2000, "${" * 60_000, "<<A " * 20_000, "(" * 2000 + "a" + ")" * 2000, "a && " * 800 + "b", "a;" * 50_000],
    ids=lambda text: text[:8],
)
def test_hostile_texts_take_bounded_time(text):
    started = time.monotonic()
    READER.read(text)
    assert time.monotonic() - started < 12  # bash itself is given ten seconds


def test_the_parser_is_loaded_only_for_what_needs_it():
    code = (
        "import sys; from ordain.adapters.shell_text import ShellText; reader = ShellText();"
        "reader.read('test -s a.txt'); print('tree_sitter' in sys.modules);"
        "reader.read('a | b'); print('tree_sitter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
