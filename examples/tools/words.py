"""The tools of this example: Python functions that plans can call."""

from pathlib import Path

from ordain import tool


@tool(effect="reads")
def count(path: str, longest: int = 3) -> dict[str, object]:
    """Count the words of a file, and name the longest of them."""
    words = Path(path).read_text(encoding="utf-8").split()
    return {"words": len(words), "longest": sorted(words, key=len, reverse=True)[:longest]}


@tool(effect="repeatable", atomic=True)
def label(path: str, text: str, token: str) -> str:
    """Write a label beside a file, with the right token only."""
    if not token:
        raise PermissionError("no token")
    Path(f"{path}.label").write_text(text + "\n", encoding="utf-8")
    return f"{path}.label"


TOOLS = [count, label]
