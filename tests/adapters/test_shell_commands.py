"""The commands of a text, and what they name: words, assignments, redirections, directories, and what nobody knows."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from tests.rows import each
from tests.words import PARSED_BYTES_MAX, ShellText, SimpleCommand, argument_script, plain_script

READER = ShellText()


def commands(text):
    return READER.scripts([text])[text].commands


def command(*words, **fields):
    return SimpleCommand(words, **fields)


@each(
    "text, expected",
    [
        ("bash scripts/deploy.sh -v", [command("bash", "scripts/deploy.sh", "-v")]),
        ("A=1 B=x.sh make all", [command("make", "all", assignments=(("A", "1"), ("B", "x.sh")))]),
        (
            "sqlite3 app.db < m.sql > out.txt 2>&1",
            [command("sqlite3", "app.db", inputs=("m.sql",), outputs=("out.txt",))],
        ),
        ("< m.sql sqlite3 app.db", [command("sqlite3", "app.db", inputs=("m.sql",))]),
        ("a <> f", [command("a", inputs=("f",), outputs=("f",))]),
        ("a >> f 2>| g &> h 3>i", [command("a", outputs=("f", "g", "h", "i"))]),
        ("a >&2 <&0 2>&1", [command("a")]),
        ("a >& f", [command("a", outputs=("f",))]),
        ("a <<< 'x.sh'", [command("a")]),
        ("a <<'E' > o\nx.sh\nE\n", [command("a", outputs=("o",))]),
        ("a > f < g late", [command("a", "late", inputs=("g",), outputs=("f",))]),
        ('a "$x" < "$y"', [command("a", None, inputs=(None,))]),
        (r"a b\ c 'd e'f \*", [command("a", "b c", "d ef", "*")]),
        ("a *.py ~/b {c,d}.e f[1]", [command("a", None, None, None, None)]),
        ("a 'b*' \"~/c\" {} d~", [command("a", "b*", "~/c", "{}", "d~")]),
        ("cat <(sort b)", [command("cat", "/dev/fd/63"), command("sort", "b")]),
        (
            'a "$(cat b)" `cat c`',
            [command("a", None, None), command("cat", "b"), command("cat", "c")],
        ),
        ("x=$(< f)", [SimpleCommand((), assignments=(("x", None),)), SimpleCommand((), inputs=("f",))]),
        ("x=(a.sh $b)", [SimpleCommand((), assignments=(("x", "a.sh"), ("x", None)))]),
        ("declare -r x='a b'", [SimpleCommand((), assignments=(("x", "a b"),))]),
        ("{ a; b; } < f", [SimpleCommand((), inputs=("f",)), command("a"), command("b")]),
        ("(a) | b < f && c &", [command("a"), command("b", inputs=("f",)), command("c")]),
        ("f() { cat x; } < y", [command("cat", "x"), SimpleCommand((), inputs=("y",))]),
        ("if a; then b; else c; fi", [command("a"), command("b"), command("c")]),
        ("while a; do b; done < f", [SimpleCommand((), inputs=("f",)), command("a"), command("b")]),
        (
            'for f in a.sql *.sql; do b < "$f"; done',
            [SimpleCommand((), assignments=(("f", "a.sql"), ("f", None))), command("b", inputs=(None,))],
        ),
        ("for f in a; do b; done < c", [SimpleCommand((), assignments=(("f", "a"),), inputs=("c",)), command("b")]),
        ("[[ -f x ]]", [command("[[", "-f", "x", "]]")]),
    ],
)
def test_what_commands_name(text, expected):
    assert list(commands(text)) == expected


@each(
    "text",
    [
        "bash -c 'cat x > y'",
        "env A=b timeout 5 sh -ec 'cat x > y'",
        "eval 'cat x > y'",
        "eval cat x '>' y",
        "bash -c \"bash -c 'cat x > y'\"",
        "bash <<'E'\ncat x > y\nE\n",
        "bash -s z <<E\ncat x > y\nE\n",
        "sh <<< 'cat x > y'",
    ],
)
def test_a_text_that_is_handed_to_a_shell_is_read_too(text):
    assert commands(text)[-1] == command("cat", "x", outputs=("y",), handed=True)


@each(
    "text",
    ['bash -c "$x"', 'eval "$x"', "bash -c 'a ('", "a | bash", "bash <<E\n$x\nE\n", "a | sh -s b", 'bash "$x"', "$x"],
)
def test_a_script_that_nobody_knows_is_said_to_be_unknown(text):
    assert any(None in one.words for one in commands(text))


@each(
    "text, directory",
    [
        ("cd sub && cat x", "sub"),
        ("cd a; cd b/c; cat x", "a/b/c"),
        ("cd a; cd /b; cat x", "/b"),
        ("(cd sub; make); cat x", ""),
        ("echo $(cd sub; make); cat x", ""),
        ("cd sub | cat; cat x", ""),
        ("cd a && bash -c 'cat x'", "a"),
        ("bash -c 'cd a; make'; cat x", ""),
        ("cd; cat x", None),
        ("cd -; cat x", None),
        ('cd "$d"; cat x', None),
        ("cd sub || true; cat x", None),
        ("if a; then cd b; fi; cat x", None),
        ("f() { cd b; }; f; cat x", None),
        ("for i in a b; do cd b; done; cat x", None),
        ("bash -c 'cd a; cat x'", None),
        ("eval 'cd a'; cat x", None),
        ("pushd a; cat x", None),
        ("builtin cd a b; cat x", None),
        ("CDPATH=/tmp; cd a; cat x", None),
        ("test -d a && cd a && cat x", "a"),
        ("cd a > f && { cat x; }", "a"),
        ("if b; then cd a && cat x; fi", "a"),
        ("b && { cd a; cat x; }", "a"),
        ("cd a; cat x & b", "a"),
        ("test -d a && cd a; cat x", None),
        ("[ -d a ] && cd a\ncat x", None),
        ("cd a && b; cat x", None),
        ("cd a && b || cat x", None),
        ("b && { cd a; }; cat x", None),
        ("b && { c && cd a; cat x; }", None),
        ("{ cd a; cat x; } && b", None),
        ("{ cd a; cat x; } > f && b", None),
        ("echo $(cd a; cat x)", None),
        ("set +e; cd a; cat x", None),
        ("set +o errexit; cd a; cat x", None),
        ('set "$o"; cd a; cat x', None),
        ("shopt -uo errexit; cd a; cat x", None),
        ("eval 'set +e'; cd a; cat x", None),
        ("set -euo pipefail; cd a; cat x", "a"),
        ("cd a && cd .. && cat x", None),
        ("cd a/../b && cat x", None),
        ("cd ..a && cat x", "..a"),
        ("cd() { b; }; cd a && cat x", None),
        ("eval 'cd() { b; }'; cd a && cat x", None),
        ("nice cd a && cat x", None),
        ("coproc { cd a; cat x; }", None),
        ("while b; do cat x; c'd' a; done", None),
    ],
)
def test_where_relative_paths_begin(text, directory):
    assert [one.directory for one in commands(text) if one.words[:1] == ("cat",) and one.words[-1] == "x"] == [
        directory
    ]


def test_a_program_and_its_arguments_are_read_without_a_shell():
    def read(text):
        return READER.scripts([text]).get(text)

    plain = argument_script(["cat", "*.py", None], read)
    assert plain is not None and plain.commands == (command("cat", "*.py", None),)
    handing = argument_script(["bash", "-c", "cat x | y"], read)
    assert handing is not None and [one.words[0] for one in handing.commands] == ["bash", "cat", "y"]
    assert argument_script(["bash", "-c", "cat 'x"], read) is None


def test_long_and_costly_texts_are_unknown_and_it_does_not_matter_what_was_read_before():
    long = "echo 'x'; " * (PARSED_BYTES_MAX // 10 + 1)
    assert READER.scripts([long]) == {}
    many = [f"echo '{n}' {'y' * 16000}" for n in range(20)]
    read = ShellText().scripts(many)
    assert 0 < len(read) < 20 and list(read) == many[: len(read)]
    again = ShellText()
    again.scripts(many[::-1])
    assert again.scripts(many) == read and "make all" in again.scripts([*many, "make all"])


PIECES = [
    *"ab$ '\"\\<>|&;(){}[]*?~=#!\n\t`",
    "cd ",
    "bash -c ",
    "<<E\n",
    "$(",
    "for x in ",
    "; do ",
    "; done",
    "eval ",
    "<>",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_makes_it_fail(text):
    script = READER.scripts([text]).get(text)
    for one in script.commands if script is not None else ():
        assert all(word is None or isinstance(word, str) for word in one.words)


WORDS = st.text("abcXYZ019_./,:@%+-", min_size=1, max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(st.sampled_from([" ", "  "]), min_size=8, max_size=8))
def test_plain_lines_are_read_as_they_are_split(words, blanks):
    text = "".join(word + blank for word, blank in zip(words, blanks, strict=False))
    script = plain_script(text)
    assert script is not None and script.commands[0].words == tuple(words)
    quoted = " ".join(shlex.quote(word) if n else word for n, word in enumerate(words)) + " ''"
    read = READER.scripts([quoted]).get(quoted)  # tree-sitter does not know some odd words
    assert read is None or read.commands[0].words == (*words, "")
