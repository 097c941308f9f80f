"""Doors of named pipes: every client has its own answers, and none can hold up or harm anybody but itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.patience import PATIENCE_S, eventually_in_loop, let_pass_in_loop
from tests.words import (
    CANNOT_TOOL,
    DOOR,
    MESSAGE_MAX,
    NONSENSE_MAX,
    PAIRS,
    TOKEN,
    WAITING_MAX,
    CallAnswer,
    ClientMessage,
    DoorClient,
    Offer,
    PipeDoors,
    Problem,
    Refused,
)


class Behind:
    """Answers with what it was asked; `wait` waits until it is let go, or ended."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()
        self.strangers = 0

    def listed(self) -> Sequence[Offer]:
        return (CANNOT_TOOL,)

    async def serve(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        self.served.append(tool)
        try:
            if tool == "wait":
                await self.go.wait()
            if tool == "break":
                raise KeyError(tool)
        except asyncio.CancelledError:
            self.ended.append(tool)
            raise
        return CallAnswer(text=f"{tool} {args.get('text', '')}")

    async def may(self, tool: str, args: Mapping[str, Any]) -> CallAnswer:
        return CallAnswer(problem=Problem(code="E_CALL_SCOPE", detail="No.") if tool == "break" else None)

    async def stranger(self) -> CallAnswer:
        self.strangers += 1
        return CallAnswer(problem=Problem(code="E_DOOR_TOKEN", detail="No."))


def inside(life: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(life, PATIENCE_S))


def raw(env: Mapping[str, str], number: int, data: bytes) -> None:
    """Write into a pipe as somebody would who keeps to nothing, as much as it takes at once."""
    pipe = os.open(Path(env[DOOR], f"{number}.in"), os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, data)
    finally:
        os.close(pipe)


async def flood(env: Mapping[str, str], number: int, data: bytes, times: int) -> None:
    for _ in range(times):
        for begin in range(0, len(data), 4096):
            while True:
                try:
                    raw(env, number, data[begin : begin + 4096])
                    break
                except BlockingIOError:
                    await asyncio.sleep(0)


def asked(env: Mapping[str, str], tool: str, number: int = 1, session: str = "s") -> bytes:
    return (
        msgspec.json.encode(ClientMessage(token=env[TOKEN], session=session, id=number, ask="call", tool=tool)) + b"\n"
    )


def test_a_client_is_offered_what_is_there_and_answered(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            assert await client.offers() == (CANNOT_TOOL,)
            assert (await client.call("say", {"text": "é\n\x00"})).text == "say é\n\x00"
            assert "--step" in server.argv and not any(server.env[TOKEN] in word for word in server.argv)

    inside(life())


def test_a_client_asks_whether_it_may_do_something_itself(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            assert (await client.may("say", {})).problem is None
            problem = (await client.may("break", {})).problem
            assert problem is not None and problem.code == "E_CALL_SCOPE"
            assert behind.served == []

    inside(life())


def test_a_bug_behind_it_is_told_and_the_door_stays_open(tmp_path: Path) -> None:
    async def life() -> None:
        async with PipeDoors().open(str(tmp_path), Behind()) as server:
            client = DoorClient(server.env)
            problem = (await client.call("break", {})).problem
            assert problem is not None and problem.code == "B_BUG"
            assert (await client.call("say", {})).text == "say "

    inside(life())


def test_several_clients_have_each_their_own_answers(tmp_path: Path) -> None:
    async def life() -> None:
        async with PipeDoors().open(str(tmp_path), Behind()) as server:
            clients = [DoorClient(server.env) for _ in range(PAIRS)]
            calls = [one.call("say", {"text": f"{n} {m}"}) for m in range(20) for n, one in enumerate(clients)]
            said = [answer.text for answer in await asyncio.gather(*calls)]
            assert said == [f"say {n} {m}" for m in range(20) for n in range(PAIRS)]
            with pytest.raises(Refused, match="are taken"):
                DoorClient(server.env)

    inside(life())


def test_a_long_message_arrives_and_one_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            text = "x" * (MESSAGE_MAX - 1000)
            assert (await client.call("say", {"text": text})).text == f"say {text}"
            problem = (await client.call("say", {"text": text + "x" * 1000})).problem
            assert problem is not None and problem.code == "E_CALL_ARGUMENTS"
            assert len(behind.served) == 1

    inside(life())


def test_another_token_opens_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            waiting = asyncio.create_task(client.call("wait", {}))
            await until(lambda: behind.served == ["wait"])
            raw(server.env, 0, asked({**server.env, TOKEN: "another"}, "say"))
            stranger = DoorClient({**server.env, TOKEN: ""})
            problem = (await stranger.call("say", {})).problem
            assert problem is not None and problem.code == "E_DOOR_TOKEN"
            with pytest.raises(Refused):
                await stranger.offers()
            behind.go.set()
            assert (await waiting).text == "wait " and behind.served == ["wait"] and behind.strangers == 3

    inside(life())


def test_what_a_dead_client_left_is_passed_over(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            raw(server.env, 0, asked(server.env, "wait") + b'{"token": "half of a mess')
            await until(lambda: behind.served == ["wait"])
            client = DoorClient(server.env)  # nobody holds the lock: it has the same pair
            assert (await client.call("say", {})).text == "say "
            assert behind.ended == ["wait"]  # nobody waits for it any more

    inside(life())


def test_a_client_that_takes_no_answer_holds_up_only_itself(tmp_path: Path) -> None:
    async def life() -> None:
        async with PipeDoors().open(str(tmp_path), Behind()) as server:
            lock = DoorClient(server.env)
            lock.close()  # its pair stays taken, and nobody reads from it
            text = msgspec.json.encode(
                ClientMessage(
                    token=server.env[TOKEN], session="s", id=1, ask="call", tool="say", args={"text": "x" * 900_000}
                )
            )
            for number in range(40):
                await flood(server.env, 0, text.replace(b'"id":1', b'"id":%d' % number) + b"\n", 1)
            assert (await DoorClient(server.env).call("say", {})).text == "say "

    inside(life())


GARBAGE = {
    "empty": b"\n",
    "no text": b"\xff\xfe{}\n",
    "deep": b"[" * 4000 + b"\n",
    "nothing": b"{}\n",
    "another form": b'{"token": 1}\n',
    "endless": b"x" * 4096,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_heard_for_a_while_and_passed_over(tmp_path: Path, garbage: bytes) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            await flood(server.env, 0, garbage, NONSENSE_MAX // 2)
            assert (await DoorClient(server.env).call("say", {})).text == "say "
            assert behind.strangers == 0

    inside(life())


def test_a_way_that_only_garbage_comes_through_is_shut(tmp_path: Path) -> None:
    async def life() -> None:
        async with PipeDoors().open(str(tmp_path), Behind()) as server:
            with pytest.raises(OSError, match="No such device"):
                await flood(server.env, 0, b"\n" * 4096, 100)
            assert (await DoorClient(server.env).call("say", {})).text == "say "  # the next one is open

    inside(life())


def test_a_flood_of_calls_is_taken_in_no_faster_than_it_is_answered(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            for number in range(WAITING_MAX + 20):
                raw(server.env, 0, asked(server.env, "wait", number))
            await until(lambda: len(behind.served) == 4)
            await let_pass_in_loop(0.05)
            assert len(behind.served) == 4  # so many at once
            behind.go.set()
            await until(lambda: len(behind.served) == WAITING_MAX + 20)

    inside(life())


def test_a_call_is_taken_back(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            waiting = asyncio.create_task(client.call("wait", {}))
            await until(lambda: behind.served == ["wait"])
            waiting.cancel()
            await until(lambda: behind.ended == ["wait"])
            assert (await client.call("say", {})).text == "say "

    inside(life())


def test_with_the_attempt_everything_ends(tmp_path: Path) -> None:
    async def life() -> None:
        behind = Behind()
        async with PipeDoors().open(str(tmp_path), behind) as server:
            client = DoorClient(server.env)
            waiting = asyncio.create_task(client.call("wait", {}))
            await until(lambda: behind.served == ["wait"])
        assert behind.ended == ["wait"]
        with pytest.raises(Refused, match="E_DOOR"):
            await waiting
        with pytest.raises(Refused, match="E_DOOR"):
            await client.call("say", {})
        with pytest.raises(Refused, match="E_DOOR"):
            DoorClient(server.env)
        with pytest.raises(Refused, match="E_DOOR"):
            DoorClient({})

    inside(life())


async def until(true: Callable[[], bool]) -> None:
    await eventually_in_loop(true)
