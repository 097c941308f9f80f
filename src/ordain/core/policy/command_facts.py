"""What a command line does, as far as that can be known: facts, and one word for its risk. An alarm may rest on any
fact, even on a guess; a command counts as one that only reads after a strict reading alone (`read_strictly`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from posixpath import normpath

import msgspec

from ordain.core.policy.command_guess import (
    FETCHERS,
    INTERPRETERS,
    SQL_CLIENTS,
    fetched_files,
    guesses,
    guesses_in,
    guesses_of_line,
    guesses_of_sql,
    is_secret_path,
    may_run,
    runs_hidden,
    runs_input,
    runs_unknown,
    secrets_named,
    statements_change,
)
from ordain.core.policy.fact import ALARMS, CommandFact, CommandFacts, FactNote, LineFacts
from ordain.core.policy.program import ASSIGNMENT, Words, bare
from ordain.core.policy.program_table import CALMING, ProgramTable
from ordain.core.policy.script import Pipeline, Script, Simple, SimpleCommand, everywhere
from ordain.core.policy.settings import SECRET_NAMES
from ordain.core.policy.sorted_words import SortedWords
from ordain.core.policy.strict_command import read_strictly
from ordain.core.text.control import is_control
from ordain.core.text.pattern import compile_later
from ordain.core.text.secret import may_name

Read = Callable[[str], Script | None]
"""Takes a shell text apart; None where it cannot."""
LINE_MAX = 16_384
"""How long a line may be that is looked at; a longer one is unknown."""
_DEPTH_MAX = 4
_REMEMBERED, _REMEMBERED_LENGTH = 4096, 1024
_UNKNOWN = CommandFacts(program="", findings=(FactNote(CommandFact.UNKNOWN),))


class FactReader:
    """Reads command lines with a table. `root` is the workspace's path, `read` takes texts apart."""

    def __init__(self, table: ProgramTable, read: Read, root: str = "", control: Sequence[str] = ()) -> None:
        self._table, self._read, self._root, self._control = table, read, root.rstrip("/"), control
        self._words, self._short_line = lru_cache(_REMEMBERED)(self._of_words), lru_cache(_REMEMBERED)(self._of_line)

    def line(self, text: str) -> LineFacts:
        """What a line does. Agents write the same ones again and again."""
        return self._short_line(text) if len(text) <= _REMEMBERED_LENGTH else self._of_line(text)

    def _of_line(self, text: str) -> LineFacts:
        if len(text) > LINE_MAX or len(text.encode("utf-8", "surrogatepass")) > LINE_MAX:
            return LineFacts(commands=(_UNKNOWN,))
        read = read_strictly(text)
        if read is None:
            return LineFacts(commands=tuple(_with_inner(self._text(text, 0))))
        # Nothing is hidden in it, so no parser is needed.
        found = tuple(map(self.command, read.commands))
        more = (*self._joined(read.commands, read.pipelines, text), *secrets_named(text))
        strict = found if all(one.strict for one in found) and not more else None
        if more:
            found += (CommandFacts(program="", findings=more),)
        return LineFacts(commands=tuple(_with_inner(found)), strict=strict)

    # --- A script ----------------------------------------------------------------------------------------------------

    def _text(self, text: str, depth: int) -> Iterator[CommandFacts]:
        text = _TIMED.sub(r"\1", _HOME.sub(_OUTSIDE_HOME, _HERE.sub(self._root or ".", text)))
        script = self._read(text)
        if script is None:
            found = (*guesses(text), *guesses_of_line(text), *secrets_named(text), FactNote(CommandFact.UNKNOWN))
            yield CommandFacts(program="", findings=found)
            return
        for one in script.commands:
            yield self.command(one, depth)
        pipelines = tuple(
            tuple(stage.words if isinstance(stage, Simple) else () for stage in statement.stages)
            for statement in everywhere(script.statements)
            if isinstance(statement, Pipeline)
        )
        more = [*self._joined(script.commands, pipelines, text), *secrets_named(text)]
        if more:
            yield CommandFacts(program="", findings=tuple(more))

    def _joined(
        self, commands: Sequence[SimpleCommand], pipelines: Sequence[Sequence[Words]], text: str
    ) -> Iterator[FactNote]:
        """What commands do together: `curl … | sh`, `bash <(curl …)`, `curl -o a … && sh a`, `echo … | psql`."""
        inner = [(one, self._innermost(one.words)) for one in commands if one.words]
        fetching = any(words and words[0] in FETCHERS for _, words in inner)
        unpacking = fetching and any(words and words[0] in _UNPACKING for _, words in inner)
        for stages in pipelines:
            if stages[0][:1] == ("yes",) and stages[1] and stages[1][0] not in _FILTERING:
                yield FactNote(CommandFact.FORCE, "yes")
            fetched = False
            for at, words in enumerate(map(self._innermost, stages)):
                if at and words and runs_input(words):
                    yield FactNote(CommandFact.RUNS_DOWNLOADED if fetched else CommandFact.HIDDEN, str(words[0]))
                if at and words and words[0] in SQL_CLIENTS and _takes_all(words):
                    before = stages[at - 1]
                    shown = before[:1] in (("echo",), ("printf",)) and None not in before
                    yield FactNote(CommandFact.UNKNOWN if shown else CommandFact.REMOTE, str(words[0]))
                fetched = fetched or (bool(words) and words[0] in FETCHERS)
        fed = bool(pipelines) or "<<" in text
        if fed and any(words and words[0] in INTERPRETERS for _, words in inner):
            yield from guesses(text)
        yield from guesses_of_line(text)
        if fed and any(words and words[0] in SQL_CLIENTS for _, words in inner):
            yield from guesses_of_sql(text)
        files: set[str] = set()
        for one, words in inner:
            if not words:
                continue
            if words[0] in SQL_CLIENTS and one.inputs:
                yield FactNote(CommandFact.REMOTE, str(one.inputs[0] or "…"))
            if words[0] in FETCHERS:
                files |= {file.removeprefix("./") for file in (*one.outputs, *fetched_files(words)) if file}
            elif words[:2] == ("git", "clone"):
                files |= {word.removeprefix("./") for word in words[2:] if word is not None}
            elif fetching and runs_unknown(words):
                yield FactNote(CommandFact.RUNS_DOWNLOADED, str(words[0]))
            else:
                if runs_hidden(words):
                    yield FactNote(CommandFact.HIDDEN, str(words[0]))
                run = [word for word in (*may_run(words), one.words[0]) if word is not None]
                run += [f"{one.directory}/{word}" for word in run if one.directory and "/" in word]
                if unpacking and "/" in str(one.words[0]) and not _INSTALLED.fullmatch(str(one.words[0])):
                    yield FactNote(CommandFact.RUNS_DOWNLOADED, str(one.words[0]))
                for word in run:
                    if any(word.removeprefix("./") == file or word.startswith(f"{file}/") for file in files):
                        yield FactNote(CommandFact.RUNS_DOWNLOADED, word)

    def _innermost(self, words: Words) -> Words:
        """The words of what is started in the end, its name without a directory."""
        for _ in range(8):
            if not words or words[0] is None:
                return words
            words = (_name(words[0]), *words[1:])
            base = self._table.base(str(words[0]))
            if base is None or "command" not in base.operands:
                return words
            call = SortedWords(self._table, words)
            inner = call.inner()
            if not inner:
                return words
            words = inner
        return words

    # --- A command -----------------------------------------------------------------------------------------------

    def command(self, one: SimpleCommand, depth: int = 0) -> CommandFacts:
        """What a simple command does, with its redirections."""
        redirected = ((CommandFact.READS, one.inputs), (CommandFact.WRITES, one.outputs))
        findings = [
            note for fact, files in redirected for file in files for note in self._path(fact, file, one.directory)
        ]
        if not one.words:
            return CommandFacts(program="", findings=tuple(findings), strict=not one.outputs)
        if one.words == (None,) and one.handed:  # a place that the reader could not read
            return _UNKNOWN
        facts = self._words(one.words, one.directory, depth)
        if self._inside(".", one.directory) is None:  # what is there may be a repository, or a plugin, of anybody
            facts = msgspec.structs.replace(facts, strict=False)
        if one.directory and facts.program == "git":  # a repository may begin there, whose settings name programs
            findings += self._path(CommandFact.RUNS_WORKSPACE, one.directory, "")
        risky = [f"{name}=" for name, _ in one.assignments if _LOADS.match(name)]
        findings += [FactNote(CommandFact.UNKNOWN, name) for name in risky]
        findings += [FactNote(CommandFact.HIDDEN, name) for name in risky if _INJECTS.match(name)]
        return msgspec.structs.replace(facts, findings=_once((*facts.findings, *findings)))

    def _of_words(self, words: Words, directory: str | None, depth: int) -> CommandFacts:
        """What a program does that is started with these words."""
        if words[0] is None:
            notes = (FactNote(CommandFact.UNKNOWN), FactNote(CommandFact.HIDDEN), *guesses_in(words))
            return CommandFacts(program="", findings=notes)
        name = _name(words[0])
        known = name in self._table
        facts = self._known((name, *words[1:]), directory, depth) if known else self._unknown(words, directory)
        added = tuple(FactNote(fact, name) for fact in self._table.added(name))
        if known and "/" in words[0] and not _INSTALLED.fullmatch(words[0]):  # it may be the workspace's own
            own = self._path(CommandFact.RUNS_WORKSPACE, words[0], directory)
            added = (FactNote(CommandFact.UNKNOWN, words[0]), *own, *added)
        if added:
            facts = msgspec.structs.replace(facts, findings=_once((*facts.findings, *added)), strict=False)
        return facts

    def _unknown(self, words: Words, directory: str | None) -> CommandFacts:
        program = str(words[0])
        findings = [FactNote(CommandFact.UNKNOWN, program), *guesses_in(words)]
        findings += self._table.verbs.of_script(program, words[1:])
        if not program.isascii() or any(sign in program for sign in "{},$`*?"):
            findings.append(FactNote(CommandFact.HIDDEN, program))
        if "/" in program:
            findings += self._path(CommandFact.RUNS_WORKSPACE, program, directory)
        for word in words[1:]:
            if word is not None and is_secret_path(word.partition("=")[2] or word):
                findings.append(FactNote(CommandFact.CREDENTIALS, word))
        arguments = tuple(word for word in words[1:] if word is not None)
        return CommandFacts(program=_name(program), arguments=arguments, findings=_once(findings))

    def _known(self, words: Words, directory: str | None, depth: int) -> CommandFacts:
        call = SortedWords(self._table, words)
        findings = [*(FactNote(fact) for fact in call.entry.does), *self._deeds(call)]
        strict = call.strict
        inner: CommandFacts | None = None
        started_words: Words = ()
        found_inside: list[CommandFacts] = []
        placed: set[str | None] = set()
        for role, word, rest in call.roles():
            if role in ("command", "shell", "remote", "env") and depth >= _DEPTH_MAX:
                strict = False
                findings.append(FactNote(CommandFact.UNKNOWN, call.title))
            elif role == "command":
                inner, started_words = self._inner(rest, directory, depth), rest
            elif role in ("shell", "remote"):
                strict = False
                text = " ".join(one if one is not None else "$UNKNOWN" for one in rest)
                handed = tuple(self._handed(text, depth))
                found_inside += handed
                if role == "remote" and not all(map(_looks, handed)):
                    findings.append(FactNote(CommandFact.REMOTE))
            else:
                found, sure = self._operand(role, word, directory, call.program)
                findings += found
                strict = strict and sure
                placed |= {word} if role not in _LOOSE else set()
                if role == "script" and word is not None and _name(word) not in self._table:
                    findings += self._table.verbs.of_script(word, rest)
                if role == "script" and word is not None and _name(word) in self._table and depth < _DEPTH_MAX:
                    found_inside.append(self._words((_name(word), *rest), directory, depth + 1))
        if len(call.operands) == 1 and "remote" in call.entry.operands:  # a shell there
            findings.append(FactNote(CommandFact.REMOTE))
        if inner is not None and _looks(inner):
            findings = [one for one in findings if one.fact not in _ELSEWHERE_ONLY]
        if call.module:
            started_words = call.module
            inner = self._inner(call.module, directory, depth) if depth < _DEPTH_MAX else None
            strict = strict and inner is not None
        for started in call.started:
            facts = self._inner(started, directory, depth) if depth < _DEPTH_MAX else None
            strict = False
            found_inside.append(facts or _UNKNOWN)
        if call.entry.downloads and inner is not None and inner.program not in self._table:
            findings.append(FactNote(CommandFact.RUNS_DOWNLOADED, inner.program))
        calming = _calming(call)
        strict = strict and not calming & {"--help"}
        if calming:
            findings = [one for one in findings if one.fact not in ALARMS]
        for tokens, named, value in call.further:
            for token in tokens:
                role = token.removesuffix("@")
                if token == role:
                    findings += [FactNote(CommandFact(token), named)] if token not in CALMING else []
                elif role in ("shell", "command"):
                    found_inside += self._handed(value or "$UNKNOWN", depth)
                    strict = False
                else:
                    found, sure = self._operand(role, value, directory, call.program)
                    findings += found
                    strict = strict and sure
                    placed |= {value} if role not in _LOOSE else set()
        findings += [note for one in found_inside for note in one.findings]
        if "!!" in calming:
            findings = [one for one in findings if one.fact not in ALARMS]
        own = words[1 : len(words) - len(started_words)]
        others = [word for word in own if word is not None and word not in placed]
        strict = strict and self._words_stay(others, findings, directory)
        if inner is not None:
            return _started_by(call, inner, findings, strict, found_inside, tuple(own))
        return CommandFacts(
            program=call.program,
            subcommand=call.subcommand,
            arguments=tuple(word for word in call.arguments if word is not None),
            said=tuple(word for word in own if word is not None),
            findings=_once(findings),
            strict=strict,
            listed=call.listed,
            inner=tuple(found_inside),
        )

    def _deeds(self, call: SortedWords) -> Iterator[FactNote]:
        """What the verbs of a program's subcommands and tasks suggest, and options that say the same."""
        wide, words = "verb*" in call.entry.operands, [word for _, word in call.operands]
        if not wide and "task*" not in call.entry.operands:
            return
        yield from self._table.verbs.deeds(words[:6], wide=wide)
        for word in words:
            if word is not None and " " in word:
                yield from guesses_of_sql(word)
        if wide:
            unlisted = (name for name, _ in call.options if name not in call.entry.by_option)
            yield from guesses_in((None, *unlisted))

    def _words_stay(self, words: Sequence[str], findings: Sequence[FactNote], directory: str | None) -> bool:
        """Whether no word of what writes, or runs code, can be a path that leads out of the workspace, or to a control
        file. What anybody may put into `/tmp` is never run."""
        facts = {one.fact for one in findings}
        runs = CommandFact.RUNS_WORKSPACE in facts
        if not runs and CommandFact.WRITES not in facts:
            return True
        for part in (part for word in words for part in _may_be_paths(word)):
            inside = self._inside(part, directory)
            if inside is None:
                if runs or not _SCRATCH.match(normpath(part)):
                    return False
            elif "." in inside and is_control(inside, self._control):
                return False
        return True

    def _inner(self, words: Words, directory: str | None, depth: int) -> CommandFacts | None:
        while words and words[0] is not None and ASSIGNMENT.match(words[0]):
            words = words[1:]
        return self._words(words, directory, depth + 1) if words else None

    def _handed(self, text: str, depth: int) -> Iterator[CommandFacts]:
        if depth >= _DEPTH_MAX:
            yield _UNKNOWN
        else:
            yield from self._text(text, depth + 1)

    def _operand(self, role: str, word: str | None, directory: str | None, program: str) -> tuple[list[FactNote], bool]:
        """What an operand in a role means, and whether that is sure."""
        match role:
            case "reads" | "writes" | "deletes" | "permissions":
                findings = list(self._path(CommandFact(role), word, directory))
                return findings, word is not None and self._is_plain(word, directory)
            case "place":  # where a program finds its settings
                return list(self._path(CommandFact.READS, word, directory)), (
                    word is not None and self._inside(word, directory) is not None
                )
            case "host":
                return [FactNote(CommandFact.NETWORK, _host(word))], word is not None
            case "elsewhere":
                if word is not None and (found := _ELSEWHERE.match(word)) is not None:
                    facts = (CommandFact.NETWORK, CommandFact.PUBLISHES, CommandFact.REMOTE)
                    return [FactNote(fact, found[0]) for fact in facts], True
                return self._operand("writes", word, directory, program)
            case "filter":
                harmless = _FILTERS.get(_FILTER_NAMES.get(program, ""))
                if word is not None and harmless is not None and harmless.fullmatch(word):
                    return [], True
                notes = [*guesses(word or ""), FactNote(CommandFact.UNKNOWN)]
                if _FILTER_NAMES.get(program) == "awk" and _AWK_PIPES.search(word or ""):
                    notes.append(FactNote(CommandFact.HIDDEN))
                return [*notes, *([FactNote(CommandFact.OUTSIDE)] if _FILTER_WRITES.search(word or "") else [])], False
            case "script":
                return list(self._path(CommandFact.RUNS_WORKSPACE, word, directory)), word is not None
            case "sql" if program in _FILE_DATABASES:
                return [*map(_local, guesses_of_sql(word or ""))], False
            case "sql":
                return [*statements_change(word or "")], False
            case "code":
                return [*guesses(word or ""), FactNote(CommandFact.RUNS_WORKSPACE)], False
            case "env":
                secret = word is not None and may_name(word, SECRET_NAMES)
                return [FactNote(CommandFact.CREDENTIALS, word or "…")] if secret else [], word is not None
            case _:
                return [], word is not None

    # --- Paths -----------------------------------------------------------------------------------------------------

    def _path(self, fact: CommandFact, path: str | None, directory: str | None) -> Iterator[FactNote]:
        """A fact about a path, and what else follows from where it leads."""
        if path is None:
            yield FactNote(fact, "…")
            return
        if path in _STREAMS:
            return
        shown = path[1:] if path.startswith(_OUTSIDE_HOME) else path
        yield FactNote(fact, shown)
        if _is_secret(path) and fact is not CommandFact.RUNS_WORKSPACE:
            yield FactNote(CommandFact.CREDENTIALS, shown)
        if fact in (CommandFact.READS, CommandFact.RUNS_WORKSPACE):
            return
        inside = self._inside(path, directory)
        if inside is None:
            if not _SCRATCH.match(normpath(path)):
                yield FactNote(CommandFact.OUTSIDE, shown)
            if path.startswith("/dev/"):
                yield FactNote(CommandFact.IRREVERSIBLE, shown)
        elif is_control(inside, self._control):
            yield FactNote(CommandFact.OUTSIDE, shown)

    def _inside(self, path: str, directory: str | None) -> str | None:
        """A path as the workspace has it; None where it leads out of it, or may."""
        if path.startswith("~") or directory is None:
            return None
        full = normpath(f"{directory}/{path}" if directory and not path.startswith("/") else path)
        if full.startswith("/"):
            if not self._root or not f"{full}/".startswith(f"{self._root}/"):
                return None
            full = full[len(self._root) + 1 :] or "."
        return None if full == ".." or full.startswith("../") else full

    def _is_plain(self, path: str, directory: str | None) -> bool:
        """Whether a path may be read by a strict reading: of the workspace, or of the system's public files."""
        if _is_secret(path):
            return False
        return (
            path in _STREAMS
            or self._inside(path, directory) is not None
            or _PUBLIC.match(normpath(path)) is not None
            or _SCRATCH.match(normpath(path)) is not None
        )


_LOOSE = ("text", "script", "verb", "task")
"""Roles of words that may be paths all the same."""
_CODE = frozenset(["code", "filter", "shell", "remote"])
"""Roles of words that are carried out, where `--help` behind them may be theirs."""
_ELSEWHERE_ONLY = (CommandFact.DISRUPTS, CommandFact.REMOTE)
"""What does not follow from starting a command elsewhere that only looks: `docker exec web df`."""
_ELSEWHERE = compile_later(r"[a-z0-9]+://|(?:[\w.-]+@)?[\w.-]{2,}:|(?:[\w.-]+@)?\[[0-9a-f:]+\]:", re.IGNORECASE)
"""What a place on another machine, or in a cloud, begins with."""
_HOME = compile_later(r"(?<![\w.~/'-])~(?=/|\s|\Z)|\$HOME\b|\$\{HOME\}")
_OUTSIDE_HOME = "/~"
_HERE = compile_later(r"\$PWD\b|\$\{PWD\}|\$\(pwd\)|`pwd`")
_FOUND = r"(?:[^/\\\n\[]|\\.|\[[^]/\\\n]+\])*"
_ADDRESS = rf"(?:\d+|\$|/{_FOUND}/)"
_SED = rf"(?:{_ADDRESS}(?:,\+?{_ADDRESS})?!?)?\s*(?:[pdq=]|s/{_FOUND}/(?:[^/\\\n]|\\.)*/[gpIi\d]*)?\s*"
_FILTERS = {
    "sed": compile_later(rf"{_SED}(?:;{_SED})*"),
    "awk": compile_later(
        r"(?!.*(?:system|getline|ENVIRON|ARG[VC]|SYMTAB|FUNCTAB))(?:[^|>@]|>=|\|\|(?!\|))*", re.DOTALL
    ),
    "jq": compile_later(r"(?!.*(?:\benv\b|ENV|include|import))[^@]*", re.DOTALL),
}
_FILTER_NAMES = {"sed": "sed", "awk": "awk", "gawk": "awk", "mawk": "awk", "nawk": "awk", "jq": "jq", "gojq": "jq"}
"""The texts of filters that start nothing, write nothing and look into no environment."""
_UNPACKING = ("tar", "unzip", "bsdtar", "7z", "cpio")
_FILTERING = frozenset([*_FILTER_NAMES, "head", "tail", "tr", "cat", "nl", "wc", "paste", "cut", "dd", "pv", "xargs"])
_AWK_PIPES = compile_later(r"[^|]\|\s*(?:&\s*)?\"(?!sort|uniq|cat\b|head|wc|column)|@load")
_FILTER_WRITES = compile_later(r"(?:\bw|/w|>)\s*\"?(?:/(?!dev/(?:null|std)|tmp/)|~)\S")
_FILE_DATABASES = ("sqlite3", "sqlite", "duckdb", "litecli")
_INSTALLED = compile_later(r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/[^/]+")
"""Where programs are that the workspace does not have."""
_STREAMS = frozenset(["-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"])
_SCRATCH = compile_later(r"/(?:var/)?tmp(?:/|\Z)|/dev/shm/")
_PUBLIC = compile_later(
    r"/(?:usr|bin|lib|lib64|opt)(?:/|\Z)|/etc/(?:os-release|debian_version)\Z|/proc/(?:cpuinfo|meminfo)\Z"
)
_LOADS = compile_later(
    r"(?:LD_|DYLD_|PROMPT_COMMAND|PATH\Z|IFS\Z|BASH_ENV\Z|ENV\Z|PYTHON(?:PATH|STARTUP|HOME)|NODE_OPTIONS|PERL5|RUBY|GIT_)"
)
"""Variables that decide what a program loads or starts."""
_INJECTS = compile_later(
    r"LD_|DYLD_|PROMPT_COMMAND|BASH_ENV=|ENV=|PERL5OPT|PYTHONSTARTUP|GIT_(?:SSH|EXTERNAL|PAGER|EDITOR|EXEC)"
)
_TIMED = compile_later(r"(\A|[;&|\n]\s*)time\s+(?=[({])")


def _name(word: str) -> str:
    return bare(word).rpartition("/")[2] or word


_WITHIN = compile_later(r"(?:\.\.?/|[/~]).*")
"""A path behind the letters of an option: `-MF../x`."""


def _is_secret(path: str) -> bool:
    """Whether a path is one of a secret, also as git has it: `HEAD:.env`."""
    return is_secret_path(path) or (":" in path and is_secret_path(path.rpartition(":")[2]))


def _calming(call: SortedWords) -> set[str]:
    found = {token for tokens, _, _ in call.further for token in tokens if token in ("!", "!!")}
    if any(option in ("--help", "-help") for option, _ in call.options):
        given = {role for role, _, _ in call.roles()}
        given |= {token.removesuffix("@") for tokens, _, _ in call.further for token in tokens}
        return found | {"--help"} | ({"!!"} if _CODE.isdisjoint(given) else set())
    return found | {"!!"} if call.arguments == ("--version",) else found


def _looks(command: CommandFacts) -> bool:
    return CommandFact.READS in command.facts and command.facts <= {CommandFact.READS, CommandFact.NETWORK}


def _takes_all(words: Words) -> bool:
    """Whether a client of a database gets its statements through a pipe alone."""
    return not any(word is not None and re.match("--?[ceqQ]", word) for word in words)


def _local(note: FactNote) -> FactNote:
    """A change of a database in a file, which is none elsewhere."""
    if note.fact is not CommandFact.REMOTE:
        return note
    lost = note.about.lower().startswith(("update", ".restore"))
    hidden = note.about.startswith((".", "load_ext")) and not lost
    fact = CommandFact.IRREVERSIBLE if lost else CommandFact.HIDDEN if hidden else CommandFact.WRITES
    return FactNote(fact, note.about)


def _may_be_paths(word: str) -> Iterator[str]:
    """What may be a path in a word: itself, and the value of an option."""
    yield word
    if word.startswith("-"):
        yield word[2:]
        yield from _WITHIN.findall(word)
    yield from re.split("[=:,]", word)[1:]


def _host(word: str | None) -> str:
    found = re.match(r"(?:[a-z+]+://)?(?:[^/@]*@)?([^/:?#]+)", word or "", re.IGNORECASE)
    return found[1] if found is not None else "…" if word is None else word


def _started_by(
    call: SortedWords,
    inner: CommandFacts,
    findings: list[FactNote],
    strict: bool,
    inside: list[CommandFacts],
    own: Words,
) -> CommandFacts:
    """What a command does that another one starts, with what that one does itself."""
    runner = call.entry.runner or bool(call.module)
    if call.module:  # a rule may mean the interpreter, or the module
        inside = [*inside, CommandFacts(program=call.program, findings=_once(findings))]
    return msgspec.structs.replace(
        inner,
        through=(call.title, *inner.through),
        said=(*(word for word in own if word is not None), *inner.said),
        findings=_once((*inner.findings, *findings)),
        strict=inner.strict and strict and (call.entry.transparent or runner),
        runner=inner.runner or runner,
        listed=inner.listed and call.listed,
        inner=(*inner.inner, *inside),
    )


def _with_inner(commands: Iterable[CommandFacts]) -> Iterator[CommandFacts]:
    for one in commands:
        yield one
        yield from _with_inner(one.inner)


def _once(findings: Sequence[FactNote] | Iterator[FactNote]) -> tuple[FactNote, ...]:
    return tuple(dict.fromkeys(findings))
