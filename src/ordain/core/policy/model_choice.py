"""Which model is meant by `PROVIDER:NAME`, in which protocol, address and key variable it is spoken to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ordain.core.policy.tier import read_address
from ordain.core.text.problem import closest


class ModelProvider(NamedTuple):
    """What is the same for all models of a provider."""

    protocol: str
    base_url: str
    key_env: str
    """The variable that usually holds the key; empty where no key is needed."""
    key_header: str = "authorization"


PROVIDERS: Mapping[str, ModelProvider] = {
    "anthropic": ModelProvider("messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "x-api-key"),
    "openai": ModelProvider("responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-chat": ModelProvider("chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "ollama": ModelProvider("chat", "http://127.0.0.1:11434/v1", ""),
}
KEY_HEADERS = ("authorization", "x-api-key")
"""How a key can be sent: as `Authorization: Bearer KEY`, or as `x-api-key: KEY`."""
MODEL_WORDS = ", ".join(f'"{provider}:NAME"' for provider in PROVIDERS)


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model, and how it is reached."""

    provider: str
    name: str
    base_url: str
    key_env: str = ""
    """The variable that holds the key; empty where none is sent."""
    key_header: str = "authorization"

    @property
    def protocol(self) -> str:
        return PROVIDERS[self.provider].protocol

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


def model_fault(model: str) -> str | None:
    """What is wrong with the name of a model that is to be spoken to directly, in words; None where nothing is."""
    provider, colon, name = model.partition(":")
    if not colon or provider not in PROVIDERS:
        near = "; ".join(closest(provider, PROVIDERS))
        return f"must be one of {MODEL_WORDS}" + (f" ({near})" if near else "")
    return None if name.strip() == name and name else "names no model after the colon"


def model_access(model: str, *, base_url: str = "", key_env: str = "", key_header: str = "") -> ModelAccess:
    """How a model is reached whose name has no fault; what is empty is as its provider has it."""
    provider, _, name = model.partition(":")
    usual = PROVIDERS[provider]
    # A key goes to the address that it is meant for: who names another address names the key for it too.
    key = key_env or (usual.key_env if not base_url else "")
    return ModelAccess(
        provider=provider,
        name=name,
        base_url=(base_url or usual.base_url).rstrip("/"),
        key_env=key,
        key_header=key_header or usual.key_header,
    )


def base_url_fault(base_url: str) -> str | None:
    """What is wrong with an address, in words."""
    if read_address(base_url) is None:
        return 'must be an address such as "https://models.example/v1", with no password and no `#`'
    return None


def access_fault(access: ModelAccess) -> str | None:
    """Why a model cannot be reached like this, in words: no key goes over a network where others can read it."""
    address = read_address(access.base_url)
    if address is None:
        return f"{access.base_url} is no address"
    if address.scheme == "http" and access.key_env and address.host not in _HERE:
        return f"{access.base_url} would be sent the key in clear text; write https, or leave the key out"
    return None


_HERE = ("127.0.0.1", "::1", "localhost")
