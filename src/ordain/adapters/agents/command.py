"""How an agent is started that is any command: its words, the prompt among them or on standard input."""

from __future__ import annotations

from ordain.adapters.agents.output import read_object
from ordain.core.policy.agent import MODEL_WORD, PROMPT_WORD, Agent
from ordain.core.task.work_item import WorkItem
from ordain.ports.agent import Invocation, Said, StepServer

WORD_BYTES_MAX = (128 << 10) - 1
"""What Linux takes for one word of a command, but for the NUL at its end."""


def command_invocation(agent: Agent, item: WorkItem, server: StepServer | None) -> Invocation:
    model = item.model or ""
    words = tuple(item.prompt if one == PROMPT_WORD else one.replace(MODEL_WORD, model) for one in agent.command)
    stdin, size = b"" if PROMPT_WORD in agent.command else item.prompt.encode(), len(item.prompt.encode())
    if not stdin and size > WORD_BYTES_MAX:
        detail = f"the prompt has {size:,} bytes, and a word of a command {WORD_BYTES_MAX:,} at most"
        raise ValueError(f"{detail}; without `{PROMPT_WORD}` it comes on standard input")
    return Invocation(
        argv=words,
        stdin=stdin,
        env={**(server.env if server is not None else {}), "ORDAIN_MODEL": model},
        read=read_object if agent.output == "json" else lambda finished: Said(text=finished.output),
        home=agent.files,
    )
