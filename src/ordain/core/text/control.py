"""Control files: what programs outside a run act on or believe, so that no agent writes it: of git, agent hosts,
editors, direnv and Ordain. A name counts at any depth and in every spelling that some file system takes for it, and all
that lies beneath it counts. The settings can name more (`[control] files`) and nothing less."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache

from ordain.core.text.pattern import PathPattern

CONFIGURATION_FILE = "ordain.toml"

_OURS = (CONFIGURATION_FILE, ".ordain")
_HOSTS = (
    *(".claude", ".claude.json", ".claude-plugin", ".mcp.json", ".codex", ".gemini", "gemini-extension.json", ".qwen"),
    *(".opencode", "opencode.json", "opencode.jsonc", ".copilot", ".pi", ".goose", ".agents", ".cursor", ".crush"),
    *(".crush.json", "crush.json", ".amp", ".windsurf", ".codeium", ".continue", ".roo", ".kilocode", ".kiro"),
    *(".cline", ".augment", ".junie", ".trae", ".factory", ".aider.conf.yml", ".openhands", ".amazonq", ".tabnine"),
    ".rovodev",
    *("managed-settings.json", "managed-settings.d", "managed-mcp.json"),
)
"""Settings of agent hosts, in which hooks, servers and permissions stand."""
_EDITORS = (
    *(".vscode", ".idea", ".run", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", ".vim", ".nvim", ".exrc"),
    *(".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".helix", ".vs"),
    *(".lazy.lua", ".gdbinit", ".lldbinit"),
)
"""What editors and debuggers start: tasks, run configurations, containers, local scripts."""
_SHELLS = (".envrc", ".direnv", ".mise", ".mise.toml", ".mise.local.toml", "mise.toml", "mise.local.toml", ".husky")
_NAMES = frozenset((".git", *_OURS, *_HOSTS, *_EDITORS, *_SHELLS))
_PAIRS = frozenset(((".github", "hooks"), (".github", "copilot"), (".config", "mise")))
"""A name in a directory of this name: hooks and settings of copilot, settings of mise."""
_PAIRED = {name for _, name in _PAIRS}
_SUFFIXES = (".code-workspace", ".sublime-project")
_PACKAGES = frozenset(("node_modules", "site-packages"))
_SHORT = frozenset(name.lstrip(".").partition(".")[0][:6] for name in _NAMES)
"""What the short names of Windows begin with: `git~1` is `.git`."""
_TILDE = re.compile(r"([^~]{1,6})~[0-9](?:\.|\Z)")
_REPOSITORIES = (frozenset(("head", "objects", "refs")), frozenset(("head", "commondir")))
MASKED = (".claude", ".mcp.json", ".codex", ".gemini", ".envrc")
"""What a sandbox keeps from being made at the top of a workspace, beside git's and Ordain's own."""


def folded(path: str) -> str:
    """One spelling for all the spellings that some file system takes for the same path."""
    if not path.isascii():
        path = unicodedata.normalize("NFC", "".join(c for c in path if unicodedata.category(c) != "Cf"))
        path = unicodedata.normalize("NFC", path.casefold())
    parts = [part for part in path.lower().split("/") if part not in ("", ".")]
    return "/".join(parts)


def is_control(path: str, more: Sequence[str] = ()) -> bool:
    """Whether a path is a control file or lies beneath one. `more` are the patterns that the settings add."""
    parts = folded(path).split("/")
    return any(map(is_control_name, parts, ["", *parts])) or is_named(path, more)


def is_control_name(name: str, above: str = "") -> bool:
    """Whether a name, in a directory of the name `above`, is that of a control file."""
    part = _bare(name.lower() if name.isascii() else folded(name))
    short = _TILDE.match(part) if "~" in part else None
    if part in _NAMES or part.endswith(_SUFFIXES) or (short is not None and short[1] in _SHORT):
        return True
    return part in _PAIRED and (_bare(folded(above)), part) in _PAIRS


_PLAIN = "|".join(
    sorted({name[:4] for name in (*_NAMES, *_PAIRED) if name[0] != "."} | {"head", "obje", "refs", "comm"})
)
may_matter = re.compile(rf"[.]|(?i:{_PLAIN})|.*[^\x00-9;-\x7d\x7f]|(?i:.*\.(code-w|sublime-p))", re.DOTALL).match
"""Whether a name needs a look at all, for whoever has many: no name of a control file or repository is left out.
A colon, a tilde or a character beyond ASCII stands in other spellings of one."""


def is_named(path: str, more: Sequence[str]) -> bool:
    """Whether the patterns that the settings add mean a path, or one above it."""
    name = folded(path)
    return any(folded_pattern(text).matches(name) or folded_pattern(f"{text}/**").matches(name) for text in more)


def holds_named(path: str, more: Sequence[str]) -> bool:
    """Whether something beneath a directory is surely a control file by the patterns that the settings add."""
    begins = f"{folded(path)}/".lstrip("/")
    return any(f"{re.split('[*?]', folded(text))[0]}/".startswith(begins) for text in more)


def is_repository(names: Collection[str]) -> bool:
    """Whether git takes a directory with these entries for a repository, whatever it is called."""
    known = {name.lower() for name in names if len(name) <= 9}
    return any(wanted <= known for wanted in _REPOSITORIES)


def is_control_entry(path: bytes, mode: int, more: Sequence[str]) -> bool:
    """Whether an entry of git's index is a repository, a control file or outside the workspace: git checks none."""
    name = path.decode(errors="surrogateescape").replace("\\", "/")
    outside = not {"", ".", ".."}.isdisjoint(name.split("/"))
    return mode & 0o170000 == 0o160000 or outside or is_control(name, more)


def index_entries(index: bytes, id_size: int) -> set[tuple[bytes, int, bytes]]:
    """The entries of a git index (version 2, 3 or 4): each path with its mode and the name of its content. The lengths
    are those that git goes by. Raises ValueError for what is no index."""
    version = _number(index, 4, 4)
    if index[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("this is no index that git reads")
    found, at, path = set(), 12, b""
    for _ in range(_number(index, 8, 4)):
        start, name = at, at + 42 + id_size
        mode, flags = _number(index, at + 24, 4), _number(index, name - 2, 2)
        name += 2 * bool(flags & _EXTENDED)
        common = 0
        if version == 4:  # the path begins like the one before, without its last so many bytes
            less = _number(index, name, 1) & 127
            while index[name] & 128:
                name += 1
                less = (less + 1) << 7 | _number(index, name, 1) & 127
            name, common = name + 1, len(path) - less
        size = flags & _SIZE
        size = size - common if size < _SIZE else index.find(0, name) - name
        if common < 0 or size < 0:
            raise ValueError("a path in git's index has no length")
        path = path[:common] + index[name : name + size]
        at = name + size + 1 if version == 4 else start + (name - start + size + 8 & ~7)
        found.add((path, mode, index[start + 40 : start + 40 + id_size]))
    return found


def _number(index: bytes, at: int, size: int) -> int:
    if len(index) < at + size:
        raise ValueError("git's index ends too early")
    return int.from_bytes(index[at : at + size])


_EXTENDED, _SIZE = 0x4000, 0xFFF
"""Flags of an entry: more flags follow, and how long its path is, all bits where it is longer than that."""


def is_packaged(path: str) -> bool:
    """Whether a path lies in installed packages, from which no host reads settings, and is neither git's nor ours."""
    parts = [_bare(part) for part in folded(path).split("/")]
    inside = next((place for place, part in enumerate(parts) if part in _PACKAGES), None)
    return inside is not None and not {".git", *_OURS, "git~1"} & set(parts[inside:])


def _bare(part: str) -> str:
    """A name as Windows reads it: without a stream, and without dots and blanks at its end."""
    return part.partition(":")[0].rstrip(". ")


@lru_cache(maxsize=256)
def folded_pattern(text: str) -> PathPattern:
    """What a pattern means in every spelling; one that ends with a slash, all that lies beneath."""
    return PathPattern(folded(text) + "/**" * text.endswith("/"))
