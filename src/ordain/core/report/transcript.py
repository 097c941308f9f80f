"""What was said between Ordain and a model that performed a task, as it was kept: a line of JSON for each message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ordain.core.plan.value import RunId, StepId


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a model at a task, in the order in which it was said. Nothing of it is evidence."""

    run_id: RunId
    step: StepId
    attempt: int
    model: str
    address: str
    failed_requests: tuple[Mapping[str, Any], ...]
    """Each request that gave no answer, also where another one followed."""
    messages: tuple[Mapping[str, Any], ...]
    """By `type`: `user` is what it was told, `model` what it said and which tools it called, `tools` what those
    answered. Long texts are cut."""


def read_transcript(run_id: RunId, step: StepId, attempt: int, kept: bytes) -> Transcript:
    head, *messages = (json.loads(line) for line in kept.decode("utf-8", "replace").splitlines())
    return Transcript(
        run_id=run_id,
        step=step,
        attempt=attempt,
        model=head["model"],
        address=head["address"],
        failed_requests=tuple(head.get("failed_requests", ())),
        messages=tuple(messages),
    )


def transcript_text(transcript: Transcript) -> str:
    """The same for people."""
    return "\n".join(_lines(transcript)) + "\n"


def _lines(transcript: Transcript) -> Iterator[str]:
    for failed in transcript.failed_requests:
        status = f", HTTP {failed['status']}" if failed.get("status") is not None else ""
        wait = failed.get("wait_ms")
        then = f"; tried again after {wait / 1000:g} s" if wait is not None else ""
        yield f"## A request failed (try {failed['attempt']}{status}{then})\n\n{failed['detail']}\n"
    for message in transcript.messages:
        match message.get("type"):
            case "user":
                yield f"## It was told\n\n{message['text']}"
            case "model":
                yield "## It said\n"
                if message["text"]:
                    yield f"{message['text']}\n"
                for use in message.get("uses", ()):
                    written = json.dumps(use.get("arguments", {}), ensure_ascii=False)
                    yield f"→ {use['name']} {use.get('fault') or written}\n"
            case "tools":
                for answer in message["answers"]:
                    how = " with an error" if answer.get("is_error") else ""
                    yield f"## It was answered{how}\n\n{answer['text']}\n"
                if message.get("text"):
                    yield f"{message['text']}\n"
