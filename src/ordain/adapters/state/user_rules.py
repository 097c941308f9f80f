"""The user's own `config.toml`: where it is, and whether a person let the rules in it open anything.

Whoever starts a hook may set the variables that name it. So what it opens counts only while its digest is the one that
a person confirmed (`ordain guard init --user`), kept in the state directory. What it guards counts always.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ordain.adapters.state.directory import state_directory, state_path
from ordain.adapters.workspace.openat import READ, opened, place_file, root
from ordain.core.policy.settings import USER_FILE
from ordain.core.text.problem import Refused

CONFIRMED = "user-rules"


def account_home() -> str | None:
    """The home that the system has for this account, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a number without an account, as in some containers
        return None


def user_file(env: Mapping[str, str]) -> Path | None:
    """Where the user's own configuration is, if anybody said."""
    home = env.get("HOME") or account_home()
    place = env.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    return Path(place, "ordain", USER_FILE) if place else None


def is_confirmed(data: bytes, env: Mapping[str, str]) -> bool:
    """Whether a person let what this file opens count."""
    with suppress(OSError, Refused), opened(state_path(env) / CONFIRMED, READ) as handle:
        return os.read(handle, 200).decode("ascii", "replace").strip() == _digest(data)
    return False


def confirm(data: bytes, env: Mapping[str, str]) -> None:
    """Let it count, as a person said."""
    with root(state_directory(env, None)) as state:
        place_file(state, CONFIRMED, f"{_digest(data)}\n".encode(), 0o600)


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"
