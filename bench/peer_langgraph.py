"""LangGraph with its SQLite checkpointer, every change durable before the next step. Run by `.venv-bench`, not by us.

Called with a folder, a form, how many steps, how many rounds and perhaps the only way to measure. Prints one JSON line:
{way: [seconds per step, …]}, one number a round. `chain` has the steps one after the other: one node that comes round
again, and nodes that follow each other; `wide` has them all at once: nodes of one superstep, and tasks that are waited
for together. Tasks one after the other are left out: none waits until the one before it is recorded.
"""

from __future__ import annotations

import json
import operator
import sys
import time
from collections.abc import Callable
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

WARM_STEPS = 50


class State(TypedDict):
    count: int
    done: Annotated[int, operator.add]


def nothing(state: State) -> dict[str, int]:
    return {"done": 1}


@task
def nothing_task() -> None:
    return None


def looping(saver: SqliteSaver, count: int):
    graph = StateGraph(State)
    graph.add_node("nothing", nothing)
    graph.add_edge(START, "nothing")
    graph.add_conditional_edges("nothing", lambda state: "nothing" if state["done"] < state["count"] else END)
    return graph.compile(checkpointer=saver)


def following(saver: SqliteSaver, count: int):
    graph = StateGraph(State)
    for number in range(count):
        graph.add_node(f"n{number}", nothing)
        graph.add_edge(f"n{number - 1}" if number else START, f"n{number}")
    return graph.compile(checkpointer=saver)


def fanning_out(saver: SqliteSaver, count: int):
    graph = StateGraph(State)
    graph.add_node("nothing", nothing)
    graph.add_conditional_edges(START, lambda state: [Send("nothing", state)] * state["count"], ["nothing"])
    graph.add_edge("nothing", END)
    return graph.compile(checkpointer=saver)


def tasks_together(saver: SqliteSaver, count: int):
    @entrypoint(checkpointer=saver)
    def work(state: State) -> State:
        for future in [nothing_task() for _ in range(state["count"])]:
            future.result()
        return {"count": state["count"], "done": state["count"]}

    return work


FORMS = {
    "chain": {"one node": looping, "a node each": following},
    "wide": {"one superstep": fanning_out, "tasks": tasks_together},
}


def measured(make: Callable, folder: str, name: str, count: int, rounds: int) -> list[float]:
    found = []
    with SqliteSaver.from_conn_string(f"{folder}/{name}.db") as saver:
        for number, steps in enumerate([WARM_STEPS, *[count] * rounds]):
            work = make(saver, steps)
            config = {"configurable": {"thread_id": str(number)}, "recursion_limit": steps + 10}
            start = time.perf_counter()
            ended = work.invoke({"count": steps, "done": 0}, config, durability="sync")
            found.append((time.perf_counter() - start) / steps)
            if ended["done"] != steps:
                raise SystemExit(f"{name}: {ended['done']} of {steps} steps were done")
    return found[1:]


def main(folder: str, form: str, count: int, rounds: int, only: str = "") -> None:
    ways = {way: make for way, make in FORMS[form].items() if only in ("", way)}
    print(json.dumps({way: measured(make, folder, form + way, count, rounds) for way, make in ways.items()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
