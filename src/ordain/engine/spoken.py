"""Performing a task by a model that is spoken to directly, in a dialogue with exactly the tools of its step. The same
`Calls` meet what it asks for. Its key is read when the attempt begins, given to the client, and stands nowhere else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from ordain.core.plan.model import Step
from ordain.core.policy.agent import Agent, ModelAccess, access_of, shown_address
from ordain.core.run.budget import tokens_left
from ordain.core.run.prompt import AGENT_CANNOT, cannot_words, why_cannot
from ordain.core.run.step_event import Outcome, Usage
from ordain.core.task.offer import answer_texts
from ordain.core.task.work_item import WorkItem
from ordain.core.text.limit import OUTPUT_BYTES_MAX
from ordain.engine.call import Calls
from ordain.engine.context import RunContext
from ordain.engine.dialogue import Dialogue, DialogueEnd, DialogueLimits, Performed, converse, without_raw
from ordain.engine.perform.effects import make_outcome, not_begun
from ordain.ports import model
from ordain.records.sink import in_parts

SHOWN_MAX = 8000
"""How many characters of one text are kept in a transcript: what a tool answered can be had again."""
SHOWN_LIVE_MAX = 4 << 20
AGENT_LIMIT = "F_AGENT_LIMIT"


class SpokenTask:
    """One attempt at a task by a model."""

    def __init__(self, run: RunContext, step: Step, agent: Agent, item: WorkItem, calls: Calls) -> None:
        self._run, self._step, self._item, self._calls = run, step, item, calls
        self._access: ModelAccess = access_of(agent, item.model)
        self._said: list[model.Message] = []
        self._failures: list[model.RequestFailed] = []
        self._used = model.ModelUsage()
        self._live = bytearray()

    async def outcome(self) -> Outcome:
        run, access = self._run, self._access
        models = run.ports.models
        fault = models.fault(access) if models is not None else "nothing here speaks to models"
        key = run.ports.shell.environment((access.key_env,)).get(access.key_env, "") if access.key_env else ""
        if access.key_env and not key:
            fault = fault or f"its key is to come from the variable {access.key_env}, which is not set"
        if fault is not None or models is None:
            return not_begun(run, f"could not be spoken to: {fault}")
        run.spoken[self._step.id] = self._live
        try:
            return await self._outcome(models, key)
        finally:
            run.spoken.pop(self._step.id, None)

    async def _outcome(self, models: model.Models, key: str) -> Outcome:
        run = self._run
        clock, started = run.ports.clock, run.ports.clock.now()
        tokens, timeout_ms = tokens_left(run.state, self._step.id, started), self._item.timeout_ms
        text = ""
        try:
            dialogue = await run.deadlines.within(timeout_ms / 1000, self._talk(models, key, tokens))
            text = dialogue.text
            error, detail = _ending(dialogue, tokens)
        except TimeoutError:
            error, detail = "F_STEP_TIMEOUT", f"did not end within {timeout_ms / 1000:g} s"
        except model.ModelFailed as failed:
            error, detail = failed.code, failed.detail
        cannot = why_cannot(text.encode("utf-8", "replace"))
        if cannot is not None:
            error, detail = AGENT_CANNOT, cannot_words(f"`{self._item.agent}`", cannot)
        return self._seen(clock.now() - started, text, error, detail)

    async def _talk(self, models: model.Models, key: str, tokens: int | None) -> Dialogue:
        self._said.append(model.UserText(text=self._item.prompt))
        offers = self._calls.listed()
        tools = [model.ToolSpec(name=one.name, description=one.description, schema=one.schema) for one in offers]

        def used(usage: model.ModelUsage) -> None:
            self._used = self._used.plus(usage)

        async with models.client(self._access, key) as client:
            return await converse(
                client,
                system="",  # all that it is told stands in the prompt, which can be looked at
                messages=tuple(self._said),
                tools=tools,
                perform=self._perform,
                limits=DialogueLimits(tokens=tokens),
                tell=self._tell,
                used=used,
                heard=self._said.append,
            )

    async def _perform(self, use: model.ToolUse) -> Performed:
        calls = self._calls
        self._show(f"\n→ {use.name}\n")
        answer = await calls.serve(use.name, dict(use.arguments))
        text = "\n\n".join(answer_texts(answer))
        return Performed(text=text, is_error=answer.problem is not None, ends=bool(calls.cannot or calls.lost))

    def _tell(self, news: model.ModelNews) -> None:
        if isinstance(news, model.TextCame):
            self._show(news.text)
            return
        self._failures.append(news)
        then = f"; it is tried again after {news.wait_ms / 1000:g} s" if news.wait_ms is not None else ""
        self._show(f"\n[The request failed: {news.detail}{then}]\n")

    def _show(self, text: str) -> None:
        if len(self._live) < SHOWN_LIVE_MAX:
            self._live += text.encode("utf-8", "replace")

    def _seen(self, duration_ms: int, text: str, error: str | None, detail: str) -> Outcome:
        run = self._run
        kept = run.sink.words(text.encode("utf-8", "replace"), whole=True)
        outcome = make_outcome(
            run, self._step.id, duration_ms, error, detail, kept[-OUTPUT_BYTES_MAX:], len(kept), in_parts(kept)
        )
        transcript = run.sink.words(self._transcript(), whole=True)
        run.journal.hold_beside(self._step.id, transcript)
        used = Usage(tokens=self._used.tokens, cost_usd=self._used.cost_usd) if self._used.tokens else None
        return replace(outcome, used=used, transcript_seal=run.sink.seal(transcript), transcript_bytes=len(transcript))

    def _transcript(self) -> bytes:
        """All that was said, a line of JSON for each message, shortened and without what only its provider can read."""
        access = self._access
        head: dict[str, Any] = {"model": str(access), "address": shown_address(access.base_url)}
        if self._failures:
            head["failed_requests"] = msgspec.to_builtins(self._failures)
        lines = [head, *(_shortened(msgspec.to_builtins(one)) for one in without_raw(self._said))]
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode("utf-8", "replace")


def _ending(dialogue: Dialogue, tokens: int | None) -> tuple[str | None, str]:
    """What went wrong with a dialogue, as a code and in words; neither where it came to its own end."""
    match dialogue.end:
        case DialogueEnd.SAID | DialogueEnd.HANDED_IN:
            return None, ""
        case DialogueEnd.CALLS:
            return AGENT_LIMIT, f"made all {dialogue.calls} calls of tools that it has, and wanted more"
        case DialogueEnd.BYTES:
            return AGENT_LIMIT, "was answered as much by its tools as it may be"
        case DialogueEnd.TOKENS:
            return AGENT_LIMIT, f"used {dialogue.usage.tokens:,} tokens, and its budget had {tokens or 0:,} left"
        case DialogueEnd.TRUNCATED:
            return "F_STEP_FAILED", "was cut off again and again: its answers are too long"
        case DialogueEnd.REFUSED:
            return "F_STEP_FAILED", "refused to answer"


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= SHOWN_MAX else f"{value[:SHOWN_MAX]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(one) for one in value]
    return value
