"""Ports of the workspace: its files, those that are protected, our own copies, and what a planner is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ordain.core.lint.survey import Facts
from ordain.core.plan.model import Plan
from ordain.core.plan.tool import ToolDefinition
from ordain.core.policy.script import Script
from ordain.core.policy.settings import Settings
from ordain.core.report.template import TemplateSource
from ordain.core.run.step_event import ProtectedFile
from ordain.core.text.redaction import Redactor


class Workspace(Protocol):
    """The directory a plan may touch, as far as anybody but tools and commands looks at it."""

    def identity(self) -> tuple[str, int, int]:
        """Real path, device and inode, as they are now."""

    def configuration(self) -> bytes | None:
        """The content of `ordain.toml`, if there is one."""

    def document(self, path: str) -> bytes | None:
        """The content of a document by the path it was prepared from, if it can still be read."""

    def files(self, pattern: str) -> tuple[str, ...]:
        """The names of the files that match a pattern (`src/**/*.py`), sorted; no links, nothing outside."""

    def beginning(self, path: str, limit: int, secret_files: Sequence[str]) -> tuple[bytes, int]:
        """So many bytes of a regular file at most, and how long all of it is. No link is followed.

        Raises `Refused` with F_PATH_ESCAPE where a link is on the way, F_READ_MISSING where it cannot be read for
        another reason: also because it is one of the files that hold secrets.
        """

    def withheld(self, path: str, secret_files: Sequence[str], *, deep: bool) -> str | None:
        """Why what is at a path, or where it is `deep` beneath it, is not for agents, in words that follow on the
        path. What its own name says is not looked at (core.path.handed_fault)."""

    def secret_places(self, secret_files: Sequence[str]) -> tuple[str, ...]:
        """The files of the workspace that hold secrets by their names, or by the settings. No link is followed."""

    def digests(self, paths: Sequence[str], patterns: Sequence[str]) -> Mapping[str, str]:
        """What is at these paths, and at every path but a directory's that a pattern means, as `protect` means it.

        By path in one spelling, sorted: `sha256:…` of a file's content, `link:…` of a link's target (also of one on the
        way), `directory`, `other`, `absent`; nothing of git's or ours. Raises `Refused` with E_PATH for what does not
        lie beneath the workspace, E_BASE_UNREADABLE when something cannot be seen or is more than anybody should wait
        for.
        """

    def contents(self, paths: Collection[str], patterns: Collection[str]) -> Mapping[str, str]:
        """What is in the files that commands name, and in those that a pattern means, by path, sorted, as far as they
        are there. Links are followed, and a path may lead out of the workspace, as a command does.

        `sha256:…` of a file's content, with its real path where a link led there; `directory`, `too large`,
        `unreadable`, `changing`, `other`. Raises `Refused` with E_BASE_UNREADABLE when it is more than anybody should
        wait for.
        """

    def real_path(self, path: str) -> str:
        """Where a path leads, with every link and `..` followed: beneath the workspace, or absolute."""

    def scripts(self, texts: Iterable[str]) -> Mapping[str, Script]:
        """The texts of commands taken apart, but for those that cannot be; the same texts always give the same."""

    def git_head(self) -> str | None:
        """The commit that is checked out, told without running git, if there is one. Raises `Refused` with
        E_BASE_UNREADABLE where it cannot be told."""

    def facts(
        self, plan: Plan, tools: Mapping[str, ToolDefinition], settings: Settings, workspace_id: str | None
    ) -> Facts:
        """What lint wants to know about the surroundings of this plan. Changes nothing."""


TEMPLATE_BYTES_MAX = 1 << 20
"""How much of a template is read."""
TEMPLATE_ENDINGS = (".md", ".markdown", ".yaml", ".yml", ".json")


class TemplateFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that may be a template, and what is in it, or why that is not known."""

    source: TemplateSource
    file: str
    data: bytes = b""
    fault: str | None = None


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is: its content and mode; or where a link leads, without a mode."""

    content: bytes
    mode: int | None = None


class Protection(Protocol):
    """Files beneath the workspace, some of which must stay as they are. No link is followed."""

    async def stamps(self) -> Mapping[str, tuple[int, ...]] | None:
        """What tells each file from one that was changed, by path, of those that agents may be told of and git does
        not ignore; None where that takes too long."""

    async def save(self, patterns: Sequence[str], known: Collection[str]) -> Mapping[str, Saved]:
        """Every file and link that a pattern means and that is not known yet, by its path; caches of programs are left
        out.

        Raises `Refused` with E_PROTECT when one cannot be read, or when it is more than can be kept.
        """

    async def beside(self, patterns: Sequence[str], protected: Collection[str]) -> Collection[str]:
        """What is tampering where it is new: every path that a pattern means, and every file that changes how these
        protected ones are loaded (`core.loading`), but for caches. Raises `Refused` with E_PROTECT."""

    async def set_aside(self, paths: Collection[str]) -> None:
        """Move new files away; raises `Refused` with E_PROTECT where one cannot be."""

    async def drop_caches(self, protected: Collection[str]) -> None:
        """Remove what was compiled of protected files, and beside them: it could be loaded in place of them."""

    async def changed(self, files: Mapping[str, ProtectedFile], seal: Callable[[bytes], str]) -> Mapping[str, str]:
        """What became of those that are not as they were, by path: `has changed` or `is gone`."""

    async def restore(self, files: Mapping[str, Saved]) -> None:
        """Put files back, each in one step; what stands in their place or on the way is set aside. Raises `Refused`
        with E_PROTECT when one cannot be put back."""


class Copies(Protocol):
    """Our own copies of proposals in the workspace, for people to read. Nothing is believed because it is there."""

    def put(self, path: str, data: bytes) -> bool:
        """Write a whole file beneath the workspace; whether that went well."""

    def remove(self, path: str) -> None:
        """Take it away, if it is there."""


class StepLogs(Protocol):
    """One file of lines for each run in the workspace, for people and programs to read; believed by nobody."""

    def write(self, run_id: str, at: int, lines: bytes) -> bool:
        """Have these lines stand in a run's log from this place on, and nothing after them; whether that went well."""

    def read(self, run_id: str, start: int) -> tuple[bytes, int]:
        """What stands in it from a place on, as much as is read at once, and the place after. A negative place: from
        the end."""


# --- What a planner is shown ------------------------------------------------------------------------------------------


class OutlineBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One part of it, under its name: files, state of git, instruction files, build and test commands …"""

    name: str
    """In our words, such as `files` or `README.md`: never the content's."""
    text: str
    """Without secrets, and not fenced in: who shows it does that."""


class Outlines(Protocol):
    """What looks at one workspace."""

    async def outline(
        self, goal: str, redactor: Redactor, secret_files: Sequence[str] = ()
    ) -> tuple[OutlineBlock, ...]:
        """What may help to plan for this goal, the most useful first: at most 24,000 characters, and nothing of
        files that are named like secrets, protected, or in `secret_files`. Starts no program but git and always
        answers."""

    async def changes(self, redactor: Redactor, secret_files: Sequence[str] = ()) -> str:
        """How the files differ from what is committed, as unified diffs, without secrets and at most 16,000 characters;
        empty where nobody knows. Starts no program but git."""
