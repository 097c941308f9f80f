"""What models are told over MCP, from `data/mcp.toml` and `data/prompts/`. Loads nothing of the SDK."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from ordain.interfaces.view.problem import data_text


@cache
def mcp_texts() -> dict[str, Any]:
    """Instructions, and the words about every tool, resource and prompt by its name."""
    return tomllib.loads(data_text("mcp.toml"))


def prompt_text(name: str, **values: object) -> str:
    """A prompt with these values in the places that name them."""
    return data_text(f"prompts/{name}.md").removesuffix("\n").format_map(values)
