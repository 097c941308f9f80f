"""One planning by a model that is spoken to directly: it looks around, and ends with a plan, questions or a reason. It
holds nothing that writes, approves or starts: the three calls that end it hand in texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ordain.core.text.schema import Matches
from ordain.engine.dialogue import Dialogue, DialogueEnd, DialogueLimits, Perform, Performed, checked, converse
from ordain.planner.brief import QUESTIONS_MAX
from ordain.planner.rounds import Heard, Rounds
from ordain.ports.model import Message, ModelClient, ModelNews, ModelUsage, TextCame, ToolSpec, ToolUse, UserText

CALLS_MAX = 60
"""Of all tools in one planning, refused ones among them: a bound for a model that does not heed the smaller ones."""
NUDGES_MAX = 2
"""How often a model that says something and calls nothing is asked for its final call."""
TOKENS_MAX = 1_000_000
"""What a planning may use where no budget says less."""


class DraftEnd(StrEnum):
    """How a planning ended."""

    PLAN = "plan"
    """With a document, good or not."""
    QUESTIONS = "questions"
    GAVE_UP = "gave_up"
    NOTHING = "nothing"
    """It said its last word without any of these."""
    CALLS = "calls"
    TOKENS = "tokens"
    COST = "cost"
    TIME = "time"
    TRUNCATED = "truncated"
    REFUSED = "refused"


class Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner came to. Its document and what is wrong with it are in the rounds."""

    end: DraftEnd
    questions: tuple[str, ...] = ()
    reason: str = ""
    """Why it gave up, in its words; or its last words."""
    requests: int = 0
    calls: int = 0
    usage: ModelUsage = ModelUsage()


class SentBack(msgspec.Struct, frozen=True, kw_only=True):
    """A plan was handed in and judged."""

    number: int
    wrong: int
    ends: bool


class LookedAt(msgspec.Struct, frozen=True, kw_only=True):
    """A planner used a tool that reads."""

    tool: str
    subject: str
    """A path or what was searched for, raw."""
    refused: bool = False


class AgentBegun(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that plans was started, the first time or anew."""

    name: str
    number: int
    held: bool
    """Whether a sandbox keeps it from writing."""


PlannerNews = ModelNews | SentBack | LookedAt | AgentBegun
TellPlanner = Callable[[PlannerNews], None]

_TEXT = {"type": "string"}


def _spec(name: str, description: str, **properties: object) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return ToolSpec(name=name, description=description, schema=schema)


FINAL = (
    _spec(
        "submit_plan",
        "Hand in the plan: the whole document as one text. It is checked; what is wrong comes back with its lines.",
        document=_TEXT,
    ),
    _spec(
        "ask",
        f"Ask a person what only they can tell: at most {QUESTIONS_MAX} questions in all, each one sentence.",
        questions={"type": "array", "items": _TEXT, "minItems": 1, "maxItems": QUESTIONS_MAX},
    ),
    _spec("give_up", "Say that no plan can reach the goal here, and why.", reason=_TEXT),
)
"""The calls that end a planning."""
_NUDGE = (
    "That was no call. End with exactly one call of `submit_plan`, `ask` or `give_up`; what is said beside it is lost."
)


class PlannerSetup(NamedTuple):
    """What every planning is given, whoever plans."""

    specs: Sequence[ToolSpec]
    read: Perform
    """Performs the tools in `specs`."""
    rounds: Rounds
    matches: Matches
    tell: TellPlanner
    asked: int
    """How many questions were answered before."""


async def draft(client: ModelClient, setup: PlannerSetup, system: str, opening: str, tokens: int) -> Drafted:
    """Have a model plan. Raises ModelFailed where it gives no answer."""
    specs, read, rounds, matches, tell, asked = setup
    final = FinalCalls(rounds, QUESTIONS_MAX - asked, tell)
    named = {spec.name for spec in FINAL}
    perform_final = checked(FINAL, final.perform, matches)

    async def perform(use: ToolUse) -> Performed:
        return await (perform_final(use) if use.name in named else read(use))

    said: tuple[Message, ...] = (UserText(text=opening),)
    usage, requests, calls, nudges = ModelUsage(), 0, 0, 0
    while True:
        dialogue = await converse(
            client,
            system=system,
            messages=said,
            tools=(*specs, *FINAL),
            perform=perform,
            limits=DialogueLimits(calls=CALLS_MAX - calls, tokens=tokens - usage.tokens),
            tell=tell,
        )
        usage, requests, calls = usage.plus(dialogue.usage), requests + dialogue.requests, calls + dialogue.calls
        if dialogue.end is not DialogueEnd.SAID or nudges >= NUDGES_MAX:
            break
        nudges += 1
        tell(TextCame(text="\n"))  # what it says next is another answer
        said = (*dialogue.messages, UserText(text=_NUDGE))
    end, reason = final.ended(dialogue)
    return Drafted(
        end=end,
        questions=final.questions if end is DraftEnd.QUESTIONS else (),
        reason=reason,
        requests=requests,
        calls=calls,
        usage=usage,
    )


class FinalCalls:
    """What becomes of the calls that hand something in."""

    def __init__(self, rounds: Rounds, questions: int, tell: TellPlanner) -> None:
        self._rounds, self._free, self._tell = rounds, questions, tell
        self.end: DraftEnd | None = None
        self.reason = ""
        self.questions: tuple[str, ...] = ()

    async def perform(self, use: ToolUse) -> Performed:
        match use.name:
            case "submit_plan":
                return self._heard(self._rounds.submit(use.arguments["document"]))
            case "ask":
                return self._asked(tuple(use.arguments["questions"]))
            case _:
                self.end, self.reason = DraftEnd.GAVE_UP, use.arguments["reason"]
                return Performed(text="Noted. Nothing more is wanted.", ends=True)

    def _heard(self, heard: Heard) -> Performed:
        judged = self._rounds.last
        wrong = len(judged.wrong) if judged is not None else 0
        self._tell(SentBack(number=self._rounds.count, wrong=wrong, ends=heard.ends))
        if heard.ends:
            self.end = DraftEnd.PLAN
        return Performed(text=heard.text, is_error=bool(wrong), ends=heard.ends)

    def _asked(self, questions: tuple[str, ...]) -> Performed:
        if len(questions) > self._free:
            text = f"Not asked: {self._free or 'no'} more questions are free. Plan with what you know, or give up."
            return Performed(text=text, is_error=True)
        self.end, self.questions = DraftEnd.QUESTIONS, questions
        return Performed(text="They are passed on. Nothing more is wanted now.", ends=True)

    def ended(self, dialogue: Dialogue) -> tuple[DraftEnd, str]:
        """How it ended in the end, and what is said of it."""
        if dialogue.end is DialogueEnd.HANDED_IN and self.end is not None:
            return self.end, self.reason
        # A limit was reached while a plan was being mended: the best of them is still worth to be seen.
        ends = {DialogueEnd.SAID: DraftEnd.NOTHING, DialogueEnd.BYTES: DraftEnd.CALLS}
        return ends.get(dialogue.end) or DraftEnd(dialogue.end.value), dialogue.text
