"""Which model is meant, and where a key may go."""

from __future__ import annotations

from ordain.core.policy.agent import ModelAccess, access_fault, model_access, model_fault


def test_a_name_has_a_provider_and_a_model():
    assert model_fault("anthropic:claude") is None
    assert model_fault("ollama:qwen3:8b") is None
    for name in ("", "claude", "anthropic:", "antropic:claude", ":x", "openai: x", "http://host"):
        assert model_fault(name) is not None, name
    assert "anthropic" in str(model_fault("antropic:claude")).partition("(")[2]


def test_what_is_not_said_is_as_the_provider_has_it():
    assert model_access("anthropic:claude") == ModelAccess(
        provider="anthropic",
        name="claude",
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        key_header="x-api-key",
    )
    assert model_access("ollama:qwen3:8b").name == "qwen3:8b"
    assert model_access("ollama:qwen3:8b").key_env == ""
    assert [model_access(f"{one}:m").protocol for one in ("anthropic", "openai", "openai-chat", "ollama")] == [
        "messages", "responses", "chat", "chat",
    ]  # fmt: skip


def test_the_usual_key_goes_to_the_usual_address_only():
    assert model_access("openai:m", base_url="https://other.example/v1/").key_env == ""
    assert model_access("openai:m", base_url="https://other.example/v1/").base_url == "https://other.example/v1"
    assert model_access("openai:m", base_url="https://other.example/v1", key_env="OTHER_KEY").key_env == "OTHER_KEY"


def test_no_key_goes_over_a_network_in_clear_text():
    assert access_fault(model_access("openai-chat:m", base_url="http://far.example/v1", key_env="K")) is not None
    assert access_fault(model_access("openai-chat:m", base_url="http://far.example/v1")) is None
    assert access_fault(model_access("openai-chat:m", base_url="http://127.0.0.1:8080/v1", key_env="K")) is None
    assert access_fault(model_access("openai-chat:m", base_url="https://far.example/v1", key_env="K")) is None
    assert access_fault(ModelAccess(provider="openai", name="m", base_url="nowhere")) is not None
