"""Deadlines: one timer for all, and each task ended in its own time. The loop's clock is set by hand; nothing waits."""

import asyncio

import pytest

from tests.words import Deadlines


class Clocked:
    """Deadlines on a loop whose clock only moves when it is told to."""

    def __init__(self):
        self.now = 100.0
        self.deadlines = Deadlines()
        asyncio.get_running_loop().time = lambda: self.now

    async def pass_time(self, seconds):
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    async def begin(self, seconds, work):
        task = asyncio.create_task(self.deadlines.within(seconds, work))
        await asyncio.sleep(0)
        return task


def tell(story):
    async def main():
        await story(Clocked())

    asyncio.run(main())


async def for_ever():
    await asyncio.get_running_loop().create_future()


def test_what_ends_in_time_gives_its_result():
    async def story(here):
        ended = asyncio.get_running_loop().create_future()
        task = await here.begin(5, ended)
        await here.pass_time(4.9)
        ended.set_result("done")
        await here.pass_time(60)
        assert task.result() == "done"

    tell(story)


def test_what_takes_too_long_is_ended_at_its_deadline_and_not_before():
    async def story(here):
        task = await here.begin(5, for_ever())
        await here.pass_time(4.9)
        assert not task.done()
        await here.pass_time(0.2)
        assert isinstance(task.exception(), TimeoutError)
        assert task.cancelling() == 0

    tell(story)


@pytest.mark.parametrize("limits", [(3, 5, 9), (9, 5, 3), (5, 9, 3)])
def test_each_is_ended_in_its_own_time_whatever_the_order_they_began_in(limits):
    async def story(here):
        tasks = {limit: await here.begin(limit, for_ever()) for limit in limits}
        for second in range(10):
            assert {limit for limit, task in tasks.items() if task.done()} == {n for n in limits if n <= second}
            await here.pass_time(1)

    tell(story)


def test_a_timer_that_rings_for_what_has_ended_is_set_again_for_what_is_left():
    async def story(here):
        ended = asyncio.get_running_loop().create_future()
        await here.begin(5, ended)
        await here.pass_time(1)
        later = await here.begin(7, for_ever())
        ended.set_result(None)
        await here.pass_time(5)
        assert not later.done()
        await here.pass_time(2)
        assert isinstance(later.exception(), TimeoutError)

    tell(story)


def test_a_task_that_others_cancel_is_cancelled_and_not_late():
    async def story(here):
        task = await here.begin(5, for_ever())
        await here.pass_time(1)
        task.cancel()
        await here.pass_time(0)
        assert task.cancelled()

    tell(story)


def test_a_task_that_others_cancel_as_its_time_is_up_is_cancelled():
    async def story(here):
        tidying = asyncio.get_running_loop().create_future()

        async def tidy_up():
            try:
                await for_ever()
            finally:
                await tidying

        task = await here.begin(5, tidy_up())
        await here.pass_time(6)
        task.cancel()
        await here.pass_time(0)
        assert task.cancelled()

    tell(story)


def test_work_that_is_finished_in_spite_of_its_deadline_gives_its_result():
    async def story(here):
        ended = asyncio.get_running_loop().create_future()

        async def stubborn():
            try:
                await for_ever()
            except asyncio.CancelledError:
                await ended
            return "finished"

        task = await here.begin(5, stubborn())
        await here.pass_time(6)
        ended.set_result(None)
        await here.pass_time(0)
        assert task.result() == "finished"
        assert task.cancelling() == 0

    tell(story)


def test_a_task_may_have_one_deadline_after_another():
    async def story(here):
        async def twice():
            with pytest.raises(TimeoutError):
                await here.deadlines.within(5, for_ever())
            return await here.deadlines.within(5, asyncio.sleep(0, "second"))

        task = asyncio.create_task(twice())
        await here.pass_time(0)
        await here.pass_time(6)
        assert task.result() == "second"

    tell(story)


def test_once_closed_no_timer_is_left():
    async def story(here):
        task = await here.begin(5, for_ever())
        await here.pass_time(1)
        here.deadlines.close()
        await here.pass_time(60)
        assert not task.done()
        task.cancel()

    tell(story)
