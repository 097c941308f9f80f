"""What is a control file, in whatever spelling, and what only looks like one."""

import subprocess
from pathlib import Path

import pytest

from ordain.core.text.control import (
    holds_named,
    index_entries,
    is_control,
    is_control_entry,
    is_packaged,
    is_repository,
    may_matter,
)
from tests.programs import need
from tests.rows import each

CONTROL = (
    *(
        "ordain.toml",
        "a/b/ordain.toml",
        ".ordain",
        ".ordain/x",
        ".git",
        ".git/index",
        "vendor/.git",
        "vendor/.git/config",
    ),
    *(".claude/settings.local.json", "pkg/.claude/agents/x.md", ".mcp.json", "a/.mcp.json", ".codex/config.toml"),
    *(
        ".gemini/settings.json",
        ".cursor/hooks.json",
        ".vscode/tasks.json",
        "x/.idea/workspace.xml",
        ".envrc",
        "a/.envrc",
    ),
    *(".devcontainer/devcontainer.json", ".github/hooks/x.json", "opencode.json", "crush.json", "it.code-workspace"),
    *(".GIT/config", ".Claude/settings.json", ".g\u200cit/config", ".\u200dclaude/x", "git~1/config", "CLAUDE~1/x"),
    *(".git./x", ".git /x", ".git::$INDEX_ALLOCATION/config", "./.git", "a//.git", ".claude/", "GITHUB/../.git"),
    *(".helix/languages.toml", ".openhands/setup.sh", ".amazonq/mcp.json", ".vs/tasks.vs.json", "a.sublime-project"),
    *("mise.toml", "a/.mise.toml", ".config/mise/config.toml", ".lazy.lua", ".tabnine/x", ".rovodev/x", "b/.gdbinit"),
    *(".lldbinit", ".husky/pre-commit", ".Husky/_/x"),
)
NO_CONTROL = (
    *("AGENTS.md", "CLAUDE.md", "docs/git", "src/git/hooks.py", ".gitignore", ".gitattributes", ".github/workflows/x"),
    *(
        "claude/settings.json",
        "mcp.json",
        "envrc",
        "a~1",
        "notes~1.txt",
        "ordain.toml.bak",
        ".gitlab-ci.yml",
        "vscode/x",
    ),
)


@each("path", CONTROL)
def test_it_is_control(path: str) -> None:
    assert is_control(path)
    assert any(map(may_matter, path.split("/")))


@each("path", NO_CONTROL)
def test_it_is_none(path: str) -> None:
    assert not is_control(path)


def test_settings_add_and_never_take_away() -> None:
    more = (".github/**", "deploy", "**/*.pem")
    for path in (".github/workflows/x.yml", ".GitHub/x", "deploy", "deploy/prod/x", "a/b/k.pem", ".git/x"):
        assert is_control(path, more), path
    assert not is_control("deployed/x", more) and not is_control("a/deploy", more)
    assert holds_named(".", more) and holds_named("a", ("a/b/**",)) and not holds_named("b", ("a/b/**",))


def test_a_repository_is_one_under_any_name() -> None:
    assert is_repository({"HEAD", "objects", "refs", "x"}) and is_repository({"head", "commondir"})
    assert not is_repository({"HEAD", "refs"}) and not is_repository({"objects", "refs"})


def test_packages_come_with_settings_and_never_with_repositories() -> None:
    assert is_packaged("node_modules/a/.vscode") and is_packaged(".venv/lib/site-packages/x/.claude")
    assert not is_packaged("src/.vscode") and not is_packaged("node_modules/a/.git") and not is_packaged(".vscode")


@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_index_is_read_as_git_reads_it(tmp_path: Path, form: str, version: int) -> None:
    need("git")
    commit = ("1" if form == "sha1" else "2") * (40 if form == "sha1" else 64)
    names = [*(f"dir{n}/{'x' * n}/link" for n in range(1, 300, 7)), "a" * 5000, "ä", "dir/link"]
    modes = {name: "160000" if place % 3 == 0 else "100644" for place, name in enumerate(names)}
    entries = "".join(f"{mode} {commit} 0\t{name}\n" for name, mode in modes.items())
    call = ["git", "-C", str(tmp_path)]
    subprocess.run([*call, "init", "-q", f"--object-format={form}"], check=True)
    subprocess.run([*call, "update-index", "--index-info"], input=entries.encode(), check=True)
    subprocess.run([*call, "update-index", "--index-version", str(version)], check=True)
    if version == 3:
        (tmp_path / "new").write_text("x")
        subprocess.run([*call, "add", "-N", "new"], check=True)
    index = (tmp_path / ".git/index").read_bytes()
    assert index[7] == version
    expected = {(name.encode(), int(mode, 8), bytes.fromhex(commit)) for name, mode in modes.items()}
    assert {one for one in index_entries(index, len(commit) // 2) if one[0] != b"new"} == expected
    for bad in (b"", b"DIRC", b"X" + index[1:], index[:300], index[:12] + b"\xff" * 200):
        with pytest.raises(ValueError, match="index"):
            index_entries(bad, len(commit) // 2)


def test_entries_of_the_index_that_git_would_write_where_nobody_may() -> None:
    for path in (
        ".git/hooks/x",
        "a/.GIT/x",
        "git~1/x",
        ".g\u200cit/x",
        "../x",
        "a/../b",
        "/etc/x",
        ".git\\x",
        "a//b",
        "",
    ):
        assert is_control_entry(path.encode(), 0o100644, ()), path
    assert is_control_entry(b".vscode/tasks.json", 0o100755, ()) and is_control_entry(b"deploy/x", 0o100644, ["deploy"])
    assert is_control_entry(b"vendor", 0o160000, ())
    for path in ("a", "src/a.py", ".github/workflows/x", "\udcff".encode(errors="surrogateescape").decode("latin-1")):
        assert not is_control_entry(path.encode(), 0o100644, ())
