"""Functions that configurations in tests name as tools."""

from ordain import tool


@tool(effect="reads")
def add(left: int, right: int = 0, token: str = "") -> dict[str, int]:
    """The sum of two numbers, and how long the token is.

    More about it, which no inventory tells.
    """
    return {"sum": left + right, "token": len(token)}


@tool(effect="repeatable")
def close(number: int, reason: str = "done") -> str:
    """Close a ticket."""
    return f"{number} is closed: {reason}"


@tool(destructive=True)
def drop(number: int) -> None:
    """Forget a ticket."""


TICKETS = [close, drop]
