"""What all our JSON Schemas share: which draft they are, and how what is made from types is put in form."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["DRAFT", "tidy"]

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def tidy(schema: Any) -> Any:
    """The schema without what only OpenAPI knows, and with descriptions free of their source's indentation."""
    if isinstance(schema, list):
        return [tidy(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: tidy(inner) for key, inner in schema.items() if key != "discriminator"}
    if isinstance(made.get("description"), str):
        made["description"] = inspect.cleandoc(made["description"])
    return made
