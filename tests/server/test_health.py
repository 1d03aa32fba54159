"""What is wrong with the broker is known, counted and shown."""

import asyncio

from dragoman.server.health import Health


def test_a_trouble_keeps_its_beginning_until_it_is_cleared() -> None:
    clock = iter((1.0, 2.0))
    health = Health(lambda: next(clock))
    health.report("ledger", "full", is_blocking=True)
    health.report("ledger", "broken", "check /data", is_blocking=True)
    (found,) = health.troubles()
    assert (found.reason, found.detail, found.since) == ("broken", "check /data", 1.0)
    assert health.has("ledger")
    assert health.clear("ledger")
    assert not health.clear("ledger")
    assert health.troubles() == []


def test_a_part_that_tries_again_notes_its_trouble_and_its_end() -> None:
    health = Health(lambda: 1.0)
    health.note("sealing", "no space")
    (found,) = health.troubles()
    assert (found.part, found.detail, found.is_blocking) == ("sealing", "no space", False)
    health.note("sealing", "")
    assert health.troubles() == []


def test_the_oldest_trouble_is_first() -> None:
    clock = iter((5.0, 3.0))
    health = Health(lambda: next(clock))
    health.report("b", "x")
    health.report("a", "x")
    assert [each.part for each in health.troubles()] == ["a", "b"]


def test_a_background_task_that_fails_is_counted_and_shown() -> None:
    health = Health(lambda: 1.0)

    async def fail() -> None:
        raise RuntimeError("a bug")

    async def scenario() -> None:
        task = health.watch(asyncio.create_task(fail(), name="dragoman sealing"))
        await asyncio.wait([task])

    asyncio.run(scenario())
    assert health.task_failures == {"sealing": 1}
    (found,) = health.troubles()
    assert found.part == "sealing"
    assert "RuntimeError: a bug" in found.detail
    assert not found.is_blocking


def test_a_background_task_that_ends_or_is_cancelled_is_no_trouble() -> None:
    health = Health(lambda: 1.0)

    async def scenario() -> None:
        done = health.watch(asyncio.create_task(asyncio.sleep(0), name="dragoman a"))
        cancelled = health.watch(asyncio.create_task(asyncio.sleep(60), name="dragoman b"))
        cancelled.cancel()
        await asyncio.wait([done, cancelled])

    asyncio.run(scenario())
    assert health.troubles() == []
    assert not health.task_failures
