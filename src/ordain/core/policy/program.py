"""Programs: what a command starts in the end, past `env`, `timeout` and their like, and what it hands to a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ordain.core.plan.action import CallTool
from ordain.core.plan.refs import spans
from ordain.core.plan.tool import EXEC
from ordain.core.text.pattern import compile_later

Words = tuple[str | None, ...]
"""The words of a command; None for one that is only known when it runs."""

ASSIGNMENT = compile_later(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_WITH_VALUE = {
    "env": ("-u", "-C", "-S", "--unset", "--chdir"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "xargs": ("-I", "-n", "-P", "-d", "-L", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter"),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "-p"),
    "sudo": ("-u", "-g", "-h", "-C", "-D", "-p", "-R", "-T", "-U", "--user", "--group"),
    "stdbuf": ("-i", "-o", "-e"),
    "run": ("--with", "--extra", "--group", "--python", "-p", "--project", "--directory", "--env-file", "--package"),
    "exec": ("-a",),
    "nohup": (),
    "setsid": (),
    "time": ("-f", "-o"),
    "command": (),
    "builtin": (),
}
"""Programs that start another one, and those of their options whose value is a word of its own."""
_OWN_PROGRAMS = frozenset(["uv", "poetry", "pipenv", "pdm", "rye", "hatch"])
"""`uv run …` starts what its project has installed, wherever that is."""
STARTERS = _OWN_PROGRAMS.union(_WITH_VALUE)


def bare(word: str | None) -> str:
    """The name of a program in one of the usual directories; nothing for a word that is not known."""
    if word is None or word[:1] != "/":
        return word or ""
    return re.sub(r"^(?:/usr(?:/local)?)?/bin/", "", word)


def unwrapped(words: Words) -> Words:
    """The command that is started in the end, past `env`, `timeout`, `xargs`, `nice`, `sudo`, `uv run` …"""
    while words and bare(words[0]) in STARTERS and (inner := _inner(words)) is not None:
        words = inner
    return words


def _inner(words: Words) -> Words | None:
    """The command that a command starts, where it is one that starts another."""
    wrapper, rest = bare(words[0]), words[1:]
    if wrapper in _OWN_PROGRAMS and rest[:1] == ("run",):
        wrapper, rest = "run", rest[1:]
    if wrapper not in _WITH_VALUE or words[0] == "run":
        return None
    at, valued = 0, _WITH_VALUE[wrapper]
    while at < len(rest) and (word := rest[at]) is not None and word.startswith("-"):
        letters = word[1:] if not word.startswith("--") else ""
        first = next((place for place, letter in enumerate(letters) if f"-{letter}" in valued), None)
        # `-u root` and `-Eu root` take the next word, `-uroot` does not.
        at += 2 if word in valued or (first is not None and first == len(letters) - 1) else 1
    if wrapper in ("env", "sudo"):
        while at < len(rest) and (word := rest[at]) is not None and ASSIGNMENT.match(word):
            at += 1
    if wrapper == "timeout":
        at += 1
    return rest[at:] or None


SHELLS = frozenset(["sh", "bash", "dash", "ash", "ksh", "zsh"])


def handed_text(words: Words) -> str | None:
    """The text that a command hands to a shell, where all of it is known: `bash -c TEXT`, `eval TEXT`, `trap TEXT`."""
    words = unwrapped(words)
    if words[0] == "eval":
        known = [word for word in words[1:] if word is not None]
        return " ".join(known) if len(known) == len(words) - 1 else None
    if words[0] == "trap":
        return words[1] if len(words) > 2 else None
    wanted = skipped = False
    for word in words[1:] if bare(words[0]) in SHELLS else ():
        if skipped:
            skipped = False
        elif word is None or word[:1] not in ("-", "+"):
            return word if wanted else None
        elif not word.startswith("--"):
            wanted = wanted or (word[0] == "-" and "c" in word)
            skipped = word[-1] in "oO"
        else:
            skipped = word in ("--rcfile", "--init-file")
    return None


def started_programs(words: Words) -> Iterator[str]:
    """The programs that a command starts by names that can be known, but for what `uv run` and its like start."""
    current: Words | None = words
    while current and (name := current[0]) is not None:
        yield name
        current = None if name in _OWN_PROGRAMS else _inner(current)


def may_be_options(action: CallTool, item: str = "item") -> Iterator[int]:
    """Which arguments of a program begin with a reference and have no literal `--` before them."""
    argv = action.args.get("argv") if action.tool == EXEC.name else None
    words = tuple(word if isinstance(word, str) else None for word in argv) if isinstance(argv, list | tuple) else ()
    program = len(words) - len(unwrapped(words))  # `env -- tar …` ends the options of `env` only
    for at, word in enumerate(words):
        if word == "--" and at > program and bare(words[program]) != "find":  # for which `-delete` is no option
            return
        if isinstance(word, str) and next(spans(word, item), (1, 0))[0] == 0:
            yield at


# --- Started code ----------------------------------------------------------------------------------------------------
# Of commands that run outside the sandbox, MCP servers and notifiers. What they read or serve may lie in the workspace;
# what they run may not: a sandboxed step can write there, and the command holds credentials.

WORKSPACE_WORD = "{workspace}"
"""Stands for the path of the workspace in the words of servers, handlers and notifiers."""

_RUNNER = compile_later(
    r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|java|bash|sh|dash|zsh|ksh|fish|busybox|tsx|ts-node|npx|bunx|npm|pnpm"
    r"|yarn|corepack|uv|uvx|pipx|poetry|pdm|hatch|rye|cargo|go|make|just|dotnet|ash|t?csh|julia|Rscript|raku|elixir|groovy"
    r"|guile|osascript|pwsh|rbash|[lm]ksh|rksh|rzsh|yash|posh|elvish|nu|xonsh|tclsh|wish|gmake|prove)[\d.]*(?:\.exe)?"
)
"""Programs that are given the code to run."""
_WRAPPER = compile_later(
    r"env|nice|ionice|nohup|timeout|sudo|doas|setsid|stdbuf|time|chrt|xvfb-run|dotenv|flock|strace"
    r"|unshare|setpriv|runuser|systemd-run|xargs|script|chroot|taskset|prlimit|dbus-run-session|direnv|mise"
)
_BETWEEN = compile_later(r"run|exec|x|dlx|tool|start|serve|--|[\d.]+[smhd]?")
_OPTIONS_WITH_VALUE = """
-W -X -r --require --import --loader --experimental-loader -C --conditions --env-file -I -cp -classpath --class-path -p
--package --from --with --with-editable --with-requirements --python --directory --project --prefix --config-file --cwd
-f --file -n -u -k -s --spec --filter --manifest-path -o +o +O --rcfile --init-file
"""
_VALUED = frozenset(_OPTIONS_WITH_VALUE.split())
_TEXT = compile_later(r"-[A-Za-z]*[ceE]|--eval(?:=.*)?|--print(?:=.*)?|--call|-pe?|-Command|eval", re.DOTALL)
"""Words whose next word, or rest, is code by itself."""
_SERVERS = "uvicorn|gunicorn|hypercorn|fastmcp|mcp|flask|streamlit"
_OWN_TEXT = (
    (compile_later(r"(?:python|pypy).*"), compile_later(r"-[bBdEiIOPqsSuvx]*c.*", re.DOTALL)),
    (compile_later(r"(?:perl|ruby|raku).*"), compile_later(r"-[acFilnpsStTuUwWx\d]*[eE].*", re.DOTALL)),
    (compile_later(r"(?:node|bun).*"), compile_later(r"-p")),
    (compile_later(r"php.*"), compile_later(r"-[rBRE].*", re.DOTALL)),
    (compile_later(r"env"), compile_later(r"-[iv0]*S.*|--split-string.*", re.DOTALL)),
    (compile_later(r"(?:script|flock|runuser).*"), compile_later(r"-[a-z]*c.*|--command.*", re.DOTALL)),
    (compile_later(r"[gmn]?awk|g?sed|expect|tclsh.*"), compile_later(r".*", re.DOTALL)),
    (compile_later(_SERVERS), compile_later(r".*", re.DOTALL)),
)
"""Such words of certain programs."""
_RUNNING = compile_later(
    rf"runpy|cProfile|profile|pdb|trace|timeit|doctest|unittest|pytest|code|pip|coverage|{_SERVERS}"
)
"""Python modules that run the code they are given."""
_WORD = compile_later(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_SUFFIXES = (
    *(".py", ".pyz", ".pyc", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".rb", ".pl", ".php"),
    *(".lua", ".sh", ".bash", ".jar", ".class", ".wasm", ".so", ".dylib", ".dll", ".exe"),
)


def code_words(argv: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The words that name code: the program, everything up to what a runner runs, what is named like code, and what a
    proxy is handed to start. Where code is in the command itself, all the rest, marked."""
    yield argv[0], False
    yield from ((word, False) for word in argv[1:] if word.lower().endswith(_SUFFIXES))
    name = argv[0].rpartition("/")[2]
    wraps, runs = _WRAPPER.fullmatch(name) is not None, _RUNNER.fullmatch(name) is not None
    own = [text for names, text in _OWN_TEXT if names.fullmatch(name)]
    for number, word in enumerate(() if wraps or runs or own else argv[1:], start=1):
        first, blank, _ = word.partition(" ")
        if _RUNNER.fullmatch(first := first.rpartition("/")[2]) or _WRAPPER.fullmatch(first):
            yield from code_words([re.sub("[\"']", "", one) for one in _WORD.findall(word)] if blank else argv[number:])
            if not blank:
                return
    is_value = False
    for number, word in enumerate(argv[1:] if wraps or runs or own else (), start=1):
        is_text = runs and word not in _VALUED and _TEXT.fullmatch(word)
        if not is_value and (is_text or any(text.fullmatch(word) for text in own)):
            yield from ((one, True) for one in argv[number:])
            return
        yield word, False
        if is_value or word.startswith(("-", "+")):
            if word == "-m":
                given = argv[number + 1 :]
                yield from ((one, True) for one in given if _RUNNING.fullmatch(given[0].partition(".")[0]))
                return
            is_value = not is_value and (word in _VALUED or (word == "-O" and name.endswith("sh")))
        elif not (_BETWEEN.fullmatch(word) or (wraps and "=" in word)):
            yield from code_words(argv[number:])
            return


def module_files(module: str) -> tuple[str, ...]:
    """The files that can hold a module, from the directory that it is found in."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def sealed_modules(module: str, files: Mapping[str, bytes]) -> Mapping[str, tuple[str, bytes, bool]]:
    """By its name, the file and text of every module among `files`, and whether it is a package. The names begin where
    the file of `module` says; raises ValueError where that is not among them."""
    places = [
        path.removesuffix(tail) for tail in module_files(module) for path in files if f"/{path}".endswith(f"/{tail}")
    ]
    if not places:
        raise ValueError(f"`files` names neither {' nor '.join(module_files(module))}")
    found: dict[str, tuple[str, bytes, bool]] = {}
    for path, text in files.items():
        if path.startswith(places[0]) and path.endswith(".py"):
            parts = path.removeprefix(places[0]).removesuffix(".py").split("/")
            is_package = parts[-1] == "__init__"
            found[".".join(parts[:-1] if is_package else parts)] = path, text, is_package
    for name in list(found):
        while name := name.rpartition(".")[0]:
            found.setdefault(name, (f"{name.replace('.', '/')}/", b"", True))
    return found
