"""Names of environment variables: which may be given to a command, and which would change what programs are."""

from __future__ import annotations

import re

__all__ = ["setting_fault", "variable_fault"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_DANGEROUS = frozenset(
    [
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PROMPT_COMMAND", "PS4", "PYTHONPATH", "PYTHONHOME",
        "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PERL5LIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT",
        "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GIT_SSH",
        "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND",
        "GIT_TEMPLATE_DIR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER",
    ]
)  # fmt: skip
_NOT_FOR_STEPS = frozenset(
    [
        "PATH", "HOME", "CDPATH", "GLOBIGNORE", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "MAKEFLAGS", "MAKEFILES",
        "GNUMAKEFLAGS", "GOFLAGS", "RUSTC_WRAPPER", "RUSTFLAGS", "TAR_OPTIONS", "GREP_OPTIONS", "XDG_CONFIG_HOME",
        "LESSOPEN", "GIT_DIR", "GIT_WORK_TREE", "GCONV_PATH", "SHELL",
    ]
)  # fmt: skip
"""Variables that a person may let through from their own environment, and that no step may set."""
_DANGEROUS_BEGINNINGS = ("LD_", "DYLD_", "ORDAIN_", "BASH_FUNC_", "GIT_CONFIG", "NPM_CONFIG_", "npm_config_")


def setting_fault(name: str) -> str | None:
    """Why a step may not set a variable of this name; None when it may."""
    if name in _NOT_FOR_STEPS:
        return "could make a trusted program do something else"
    return variable_fault(name)


def variable_fault(name: str) -> str | None:
    """Why a variable of this name may not be given to a command at all; None when it may."""
    if not _NAME.fullmatch(name):
        return "is not the name of a variable"
    if name in _DANGEROUS or name.startswith(_DANGEROUS_BEGINNINGS):
        return "could make a trusted program do something else"
    return None
