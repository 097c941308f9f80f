"""This machine and its user: their own `config.toml`, and where the programs are that Ordain itself runs: in fixed
directories or where that file says, never where PATH says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from ordain.adapters.process import program
from ordain.adapters.process.line import understanding
from ordain.adapters.state.user_rules import account_home, is_confirmed, user_file
from ordain.adapters.workspace.locate import read_regular
from ordain.core.policy.fact import LineFacts
from ordain.core.policy.settings import USER_FILE, Settings, UserSettings
from ordain.core.text.problem import Refused, refuse
from ordain.documents.settings_in_force import read_user_settings


class LocalHost:
    """ports.Host over the real environment."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def user_settings(self) -> UserSettings:
        return user_settings(os.environ, self._workspace)

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        return {name: os.environ[name] for name in names if name in os.environ}

    def programs(self, names: Iterable[str], *, own: bool = False) -> dict[str, str]:
        found = {name: program_path(name, self._workspace, {} if own else os.environ) for name in names}
        return {name: path for name, path in found.items() if path is not None}

    def look_at(self, directory: str) -> tuple[str, bool]:
        real = os.path.realpath(directory)
        try:
            return real, program.open_place_of(Path(real)) is not None
        except OSError:  # not there, or not ours to look at
            return real, False

    def home(self) -> str | None:
        return account_home()

    def understanding(self, settings: Settings) -> Callable[[str], LineFacts]:
        return understanding(self._workspace, settings)


def user_settings(env: Mapping[str, str], workspace: Path | None) -> UserSettings:
    """The user's own settings; raises Refused where their file cannot be believed: it is never passed over."""
    path = user_file(env)
    if path is None or (path.is_absolute() and not os.path.lexists(path)):
        return UserSettings()
    data, fault, command = b"", "is not an absolute path", None
    if path.is_absolute():
        try:
            data, fault = read_regular(path), program.untrusted_because(path, workspace) or ""
        except OSError as error:
            fault = f"cannot be read: {os.strerror(error.errno or 0).lower()}"
        command = f"chmod go-w {path}" if fault == program.WRITABLE else None
    if fault:
        hint = "Correct that, or move the file away; nothing is read from it as it is."
        raise refuse("E_CONFIG_USER", f"Your own configuration {path} {fault}.", hint, command=command)
    settings = read_user_settings(data, str(path))
    if not isinstance(settings, UserSettings):
        raise Refused(settings)
    if settings.open_calls and not is_confirmed(data, env):
        settings = msgspec.structs.replace(settings, open_calls=())
    home = account_home()  # who asks chooses the variables: what a robot may have, only the account's own file says
    if home is None or path.resolve() != Path(home, ".config", "ordain", USER_FILE).resolve():
        return msgspec.structs.replace(settings, robot_backup_outputs=False)
    return settings


def program_path(name: str, workspace: Path | None = None, env: Mapping[str, str] = os.environ) -> str | None:
    """The absolute path of a program, if installed. Raises Refused where the user's own settings name a wrong one."""
    settings = user_settings(env, workspace)
    if (given := settings.programs.get(name)) is None:
        return program.system_program(name)
    if (fault := program.program_fault(given, (*program.ROOT, os.geteuid()), workspace)) is not None:
        raise refuse("E_CONFIG_USER", f"{settings.file} sets programs.{name} to {given}, which {fault}.")
    return given
