"""Requests take turns: the newest goes first, and a turn is neither lost nor given twice."""

from __future__ import annotations

import asyncio

import pytest

from vtax.page.turns import Turns


async def take(turns: Turns, name: str, order: list[str], ends: asyncio.Event) -> None:
    async with turns:
        order.append(name)
        await ends.wait()


def test_the_newest_goes_first_and_the_oldest_last() -> None:
    async def scene() -> list[str]:
        turns, order, ends = Turns(2), list[str](), asyncio.Event()
        tasks = []
        for name in "abcdef":
            tasks.append(asyncio.create_task(take(turns, name, order, ends)))
            await asyncio.sleep(0)
        assert order == ["a", "b"]
        ends.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scene()) == ["a", "b", "f", "e", "d", "c"]


@pytest.mark.parametrize("is_given", [False, True])
def test_who_is_gone_takes_no_turn_and_loses_none(is_given: bool) -> None:
    async def scene() -> None:
        turns, order = Turns(1), list[str]()
        ends = asyncio.Event()
        async with turns:
            gone = asyncio.create_task(take(turns, "gone", order, ends))
            await asyncio.sleep(0)
            if not is_given:
                gone.cancel()
                await asyncio.sleep(0)
        gone.cancel()  # where it was given the turn just now, it has not run since
        await asyncio.gather(gone, return_exceptions=True)
        ends.set()
        await asyncio.wait_for(take(turns, "later", order, ends), 5)
        assert order == ["later"]

    asyncio.run(scene())
