"""Says hello."""

import pkgutil
import sys


def greeting(name: str) -> str:
    return f"Hello, {name}!"


def version() -> str:
    return (pkgutil.get_data("greet", "VERSION") or b"").decode().strip()


def main() -> None:
    print(version() if sys.argv[1:] == ["--version"] else greeting(" ".join(sys.argv[1:]) or "world"))
