"""Programs and code that run outside the sandbox: found nowhere in the workspace, started in an empty directory.

A sandboxed step can write the workspace, and what runs outside holds credentials. So the program is an absolute path
outside, the directory is private, and no variable leads back. Code of the workspace counts by its trusted digest only,
and a private copy of those very bytes is what runs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import ordain
from ordain.adapters.state.directory import state_directory
from ordain.adapters.workspace.locate import read_regular
from ordain.core.plan.command import variable_fault
from ordain.core.policy.program import WORKSPACE_WORD, code_words
from ordain.core.policy.sealing import PLAIN_PATH
from ordain.core.text.problem import Refused

CODE_BYTES_MAX = 16 << 20
_PROGRAMS = (b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How files that the system can run begin."""


def is_planted(path: str, workspace: Path) -> bool:
    """Whether an absolute path leads into the workspace, as written or by its links. What Ordain itself runs from is
    kept from sandboxed steps, and does not count."""
    root = os.path.realpath(workspace)
    for one in {os.path.normpath(path), os.path.realpath(path)}:
        if f"{one}/".startswith((f"{root}/", f"{workspace}/")):
            ours = (place for place in our_python() if place.startswith(f"{root}/"))
            if not any(f"{one}/".startswith(f"{place}/") for place in ours):
                return True
    return False


def _mentions(text: str, workspace: Path) -> bool:
    """Whether the workspace is named anywhere in a word, also from the home directory or as where we are."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path raises where there is none
    for spelling in ("${HOME}", "$HOME", "~"):
        text = text.replace(spelling, home)
    places = "|".join(re.escape(str(one)) + r"(?![\w.-])" for one in {workspace, os.path.realpath(workspace)})
    return re.search(rf"{places}|/proc/[^/]+/cwd", text) is not None


def environment(names: Sequence[str], workspace: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """These variables of ours, or of those given; none that could lead a program into the workspace names it."""
    given = os.environ if given is None else given
    found = {name: given[name] for name in names if name in given}
    found["PATH"] = _safe_path(found.get("PATH", ""), workspace)
    led = {name for name, value in found.items() if variable_fault(name) is not None and _mentions(value, workspace)}
    return {**{name: value for name, value in found.items() if name not in led}, "PYTHONSAFEPATH": "1"}


def _safe_path(search: str, workspace: Path) -> str:
    """A search path without what is relative or leads into the workspace."""
    parts = [part for part in search.split(":") if part.startswith("/") and not is_planted(part, workspace)]
    return ":".join(parts) or PLAIN_PATH


def filled(argv: Sequence[str], workspace: Path) -> tuple[str, ...]:
    return tuple(word.replace(WORKSPACE_WORD, os.path.realpath(workspace)) for word in argv)


def program(name: str, search: str, workspace: Path) -> str | None:
    """The absolute path of a program on a search path, without what of that is relative or in the workspace."""
    if "/" in name:
        return name if name.startswith("/") else None
    return shutil.which(name, path=_safe_path(search, workspace))


def found_outside(words: Sequence[str], search: str, workspace: Path) -> tuple[str, ...]:
    """The words of a command, its program found outside the workspace where only named; raises FileNotFoundError."""
    found = words[0] if "/" in words[0] else program(words[0], search, workspace)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    return (found, *words[1:])


@contextlib.contextmanager
def private_directory(workspace: Path) -> Iterator[Path]:
    """A new directory for one process, which no sandbox shows; removed afterwards, or by a later one where we died."""
    rooms = state_directory(os.environ, workspace) / "rooms"
    rooms.mkdir(mode=0o700, exist_ok=True)
    for left in rooms.iterdir():
        with contextlib.suppress(ValueError, PermissionError):
            try:
                os.kill(int(left.name.partition("-")[0]), 0)
            except ProcessLookupError:
                shutil.rmtree(left, ignore_errors=True)
    import tempfile

    path = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=rooms)
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def digest_of(path: str, workspace: Path) -> tuple[str, bytes]:
    """The digest and the content of a regular file of the workspace; raises ValueError where it cannot be read."""
    try:
        data = read_regular(workspace / path, CODE_BYTES_MAX)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > CODE_BYTES_MAX:
        raise ValueError(f"{path} has more than {CODE_BYTES_MAX >> 20} MiB")
    return "sha256:" + hashlib.sha256(data).hexdigest(), data


def sealed(files: Mapping[str, str], workspace: Path) -> dict[str, bytes]:
    """The content of these files of the workspace; raises ValueError where one is not what was trusted."""
    found = {}
    for path, trusted in files.items():
        digest, found[path] = digest_of(path, workspace)
        if digest != trusted:
            raise ValueError(f'{path} is not what was trusted; as it is now, `files` would say "{path}" = "{digest}"')
    return found


def started(
    argv: Sequence[str],
    files: Mapping[str, str],
    workspace: Path,
    room: Path | None,
    given: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """The words that start a command outside: an absolute program, and for each of the `files` its copy in `room`.
    Raises ValueError where something would be run from the workspace, FileNotFoundError where there is no such program.
    """
    words, root = list(filled(argv, workspace)), os.path.realpath(workspace)
    for path, data in sealed(files, workspace).items():
        copy = (room or Path("/nowhere")) / path
        if room is not None:
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.write_bytes(data)
            copy.chmod(0o700)
        named = f"{root}/{path}"
        words = [word.removesuffix(named) + str(copy) if word.endswith(named) else word for word in words]
    for word, is_handed in (*code_words(words), *((word, False) for word in words[1:] if _is_program(word))):
        path = _path_in(word)
        beneath = word != words[0] and not path.startswith("/") and os.path.isfile(workspace / path)  # noqa: PTH113 - a word of any length
        if beneath or _mentions(word, workspace) or (path.startswith("/") and is_planted(path, workspace)):
            shown = next((given for given, one in zip(argv, words, strict=True) if word in one), word)
            if is_handed:
                why = "names the workspace for code in the command itself, which could run what a step wrote there"
                raise ValueError(f"`{shown}` {why}; start the program directly")
            raise ValueError(f"`{shown}` would be run from the workspace, where any step can change it")
    search = environment(["PATH"], workspace, given)["PATH"]
    if (found := program(words[0], search, workspace)) is None:
        if "/" in words[0] or shutil.which(words[0]) is not None:
            raise ValueError(f"`{argv[0]}` is a program of the workspace only, where any step can change it")
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    planted = unseen_file((found, *words[1:]), search, Path("/"), lambda file: not is_planted(str(file), workspace))
    if planted is not None:
        raise ValueError(f"`{words[0]}` would run {planted}, which lies in the workspace, where any step can change it")
    return (found, *words[1:])


def lost_words(argv: Sequence[str], workspace: Path) -> list[str]:
    """The words that would have meant something in the workspace, and mean nothing in an empty directory."""
    plain = (word for word in argv[1:] if WORKSPACE_WORD not in word and not _path_in(word).startswith(("/", "-")))
    return [word for word in plain if (path := _path_in(word)) and os.path.lexists(workspace / path)]


def _path_in(word: str) -> str:
    path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    return path.removeprefix("file://")


def _is_program(word: str) -> bool:
    """Whether a word is the absolute path of a file that the system can run, or a command that begins with one."""
    for path in map(Path, (_path_in(word), _path_in(word).partition(" ")[0])):
        with contextlib.suppress(OSError, ValueError):
            if path.is_absolute() and path.is_file():
                with path.open("rb") as file:
                    return file.read(4).startswith(_PROGRAMS)
    return False


# --- The files that starting a program opens -------------------------------------------------------------------------
# As far as its words, links and first line say. What a shell says of one that a sandbox lacks helps nobody.

_FIRST_LINE = 256
_DEPTH = 4
"""How many interpreters of interpreters are looked at; the kernel goes no further either."""
_LINKS = 40
_PATH_MAX = 4096
_INTERPRETER = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|bash|sh|dash|zsh|ksh|fish)[\d.]*")
"""Programs that are handed the file that they run."""
_NO_FILE = ("-c", "-m")
"""What tells them to run something else."""


def unseen_file(argv: Sequence[str], search: str, directory: Path, is_seen: Callable[[Path], bool]) -> Path | None:
    """The file without which a program cannot be started where only some files are seen: itself, where its links end,
    what interprets it, or what it is to interpret. None where nothing is missing, or there is no such program at all.
    """
    missing = _unseen_program(argv[0], search, directory, is_seen)
    script = _script(argv, directory) if missing is None else None
    if script is None:
        return missing
    return next((path for path in (script, _end_of(script)) if not is_seen(path)), None)


def _script(argv: Sequence[str], directory: Path) -> Path | None:
    """The file that an interpreter is handed, by its whole path."""
    if _INTERPRETER.fullmatch(Path(argv[0]).name):
        for word in argv[1:]:
            if word in _NO_FILE:
                break
            if not word.startswith("-") and len(word) < _PATH_MAX and (directory / word).is_file():
                return Path(word) if word.startswith("/") else None
    return None


def _unseen_program(program: str, search: str, directory: Path, is_seen: Callable[[Path], bool]) -> Path | None:
    words: Sequence[str] = (program,)
    for _ in range(_DEPTH):
        found = list(_found(words[0], search, directory)) if words else []
        usable = [path for path in found if is_seen(path) and is_seen(_end_of(path))]
        if not usable:
            return next((path if not is_seen(path) else _end_of(path) for path in found), None)
        words = _interpreter(usable[0])
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
    return None


def _found(program: str, search: str, directory: Path) -> Iterator[Path]:
    for place in search.split(":") if "/" not in program else [""]:
        found = shutil.which(program, path=place) if place else shutil.which(directory / program)
        if found is not None:
            yield Path(found)


def _end_of(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _interpreter(path: Path) -> list[str]:
    """The words after `#!`."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        line = file.readline(_FIRST_LINE)
        return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    return []


def our_python() -> tuple[str, ...]:
    """What must be seen so that `sys.executable` starts, and finds itself, its packages and us."""
    links = [Path(sys.executable)]
    with contextlib.suppress(PermissionError):  # where even looking is not ours, neither is starting
        while links[-1].is_symlink() and len(links) < _LINKS:
            links.append(links[-1].parent / links[-1].readlink())
    package = Path(ordain.__file__).resolve().parent
    found = (sys.prefix, sys.base_prefix, sys.exec_prefix, str(package), *map(str, links))
    return tuple(dict.fromkeys(os.path.normpath(one) for one in found))


# --- Telling people --------------------------------------------------------------------------------------------------


class CommandNotifier:
    """ports.Notifier over real processes. A command that is missing, hangs or fails holds nobody up."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def tell(self, command: Sequence[str], message: bytes) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError, Refused), contextlib.ExitStack() as held:
            room = held.enter_context(private_directory(self._workspace))
            # Through a file that has no name, so that even a command that never reads can be left behind.
            import subprocess
            import tempfile  # few are told anything

            in_memory = hasattr(os, "memfd_create")
            with os.fdopen(os.memfd_create("ordain-notice"), "w+b") if in_memory else tempfile.TemporaryFile() as file:
                file.write(message + b"\n")
                file.flush()
                file.seek(0)
                process = subprocess.Popen(
                    started(command, {}, self._workspace, None),
                    cwd=room,
                    env=environment(list(os.environ), self._workspace),
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            # Somebody must collect it when it ends, and nobody waits for that.
            held.callback(process.wait)
            threading.Thread(target=held.pop_all().close, name="ordain-notice", daemon=True).start()
