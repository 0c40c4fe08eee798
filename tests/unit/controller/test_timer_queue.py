"""Messages to oneself, on time and in order."""

from __future__ import annotations

import asyncio
import time

from minislurm.cluster.messages import EligibilityDue, PurgeDue, Timer
from minislurm.controller.timer_queue import TimerQueue
from minislurm.domain.ids import JobId


def due(number: int) -> EligibilityDue:
    return EligibilityDue(JobId(number))


async def until(condition: object, limit_s: float = 5.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.002)


def test_in_order_of_time_and_never_early() -> None:
    async def main() -> None:
        fired: list[tuple[Timer, float]] = []
        queue = TimerQueue(lambda message: fired.append((message, time.time())))
        now = time.time()
        for number, delay in ((3, 0.09), (1, 0.03), (2, 0.06)):
            queue.add(now + delay, due(number))
        await until(lambda: len(fired) == 3)
        assert [message for message, _ in fired] == [due(1), due(2), due(3)]
        for (_, when), delay in zip(fired, (0.03, 0.06, 0.09), strict=True):
            assert when >= now + delay

    asyncio.run(main())


def test_what_is_past_comes_at_once_in_the_order_of_adding() -> None:
    async def main() -> None:
        fired: list[Timer] = []
        queue = TimerQueue(fired.append)
        for number in (1, 2, 3):
            queue.add(0.0, due(number))
        assert fired == [], "not from within add"
        await until(lambda: len(fired) == 3)
        assert fired == [due(1), due(2), due(3)]

    asyncio.run(main())


def test_an_earlier_one_overtakes() -> None:
    async def main() -> None:
        fired: list[Timer] = []
        queue = TimerQueue(fired.append)
        queue.add(time.time() + 3600, due(1))
        queue.add(time.time() + 0.02, due(2))
        await until(lambda: fired == [due(2)])
        queue.clear()

    asyncio.run(main())


def test_a_timer_may_add_another() -> None:
    async def main() -> None:
        count = 0

        def fire(message: Timer) -> None:
            nonlocal count
            count += 1
            if count < 4:
                queue.add(time.time(), message)

        queue = TimerQueue(fire)
        queue.add(0.0, PurgeDue())
        await until(lambda: count == 4)

    asyncio.run(main())


def test_cleared() -> None:
    async def main() -> None:
        fired: list[Timer] = []
        queue = TimerQueue(fired.append)
        queue.add(time.time() + 0.01, due(1))
        queue.clear()
        queue.add(time.time() + 0.05, due(2))
        await until(lambda: bool(fired))
        assert fired == [due(2)]

    asyncio.run(main())


def test_cleared_by_a_timer() -> None:
    """As when the store fails while timers fire."""

    async def main() -> None:
        fired: list[Timer] = []

        def fire(message: Timer) -> None:
            fired.append(message)
            queue.clear()

        queue = TimerQueue(fire)
        queue.add(0.0, due(1))
        queue.add(time.time() + 0.05, due(2))
        await until(lambda: bool(fired))
        queue.add(time.time() + 0.1, due(3))
        await until(lambda: len(fired) == 2)
        assert fired == [due(1), due(3)]

    asyncio.run(main())
