"""Runs a plan of `compositions` as a task: each step is a child job of the plan's job."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Any, Final

from dragoman.model.retry import read_retry
from dragoman.sdk.compositions import (
    BadPlan,
    Chain,
    Group,
    Map,
    Plan,
    Step,
    positions_of,
    read_plan,
    steps_of,
)
from dragoman.sdk.context import JobContext
from dragoman.sdk.task_results import Permanent

#: The first step of a plan gets no result.
_NOTHING: Final = object()


def workflow_task(services: Set[str]) -> Callable[..., Awaitable[Any]]:
    """Return the task that runs plans. Their steps may use these services only.

    The steps run with the credentials of the worker, so a client could otherwise reach services
    that it may not use itself.
    """

    async def run_workflow(job: JobContext, plan: object, first: list[object] | None = None) -> Any:
        """Run a plan; return its result. `first` has the result that its first step gets."""
        try:
            found = read_plan(plan)
            _check_services(found, services)
            run = PlanRun(job, found)
        except BadPlan as error:
            raise Permanent(str(error)) from None
        return await run.run(found, first[0] if first else _NOTHING)

    return run_workflow


def _check_services(plan: Plan, services: Set[str]) -> None:
    for step in steps_of(plan):
        if step.service not in services:
            raise BadPlan(
                f"step {step.service}.{step.task}: this worker runs steps of "
                f"{', '.join(sorted(services))} only; name {step.service!r} in offer_workflows"
            )


class PlanRun:
    """One run of a plan."""

    def __init__(self, job: JobContext, plan: Plan) -> None:
        self._job = job
        self._positions, self._room = positions_of(plan)

    async def run(self, plan: Plan, result: object) -> Any:
        """Run a plan after another one had this result."""
        if isinstance(plan, Step):
            return await self._step(plan, result, 0)
        if isinstance(plan, Chain):
            for each in plan.plans:
                result = await self.run(each, result)
            return None if result is _NOTHING else result
        if isinstance(plan, Group):
            runs = [lambda each=each: self.run(each, result) for each in plan.plans]
            return await gather_bounded(runs, plan.window)
        return await self._map(plan, result)

    async def _map(self, plan: Map, result: object) -> list[object]:
        items = plan.items if plan.items is not None else result
        name = f"map of {plan.step.service}.{plan.step.task}"
        if not isinstance(items, list):
            raise Permanent(f"{name}: the result before it is {type(items).__name__}, not a list")
        if len(items) > self._room:
            raise Permanent(f"{name}: {len(items):,} items, at most {self._room:,} in this plan")
        runs = [
            lambda number=number, item=item: self._step(plan.step, item, number)
            for number, item in enumerate(items)
        ]
        return await gather_bounded(runs, plan.window)

    async def _step(self, step: Step, result: object, number: int) -> object:
        options = dict(step.options)
        if "retries" in options:
            options["retries"] = read_retry(options["retries"])
        position = self._positions[id(step)] + number
        caller = self._job.options(position=position, **options)
        before = () if result is _NOTHING or not step.takes_result else (result,)
        return await caller.call(step.service, step.task, *before, *step.args, **step.kwargs)


async def gather_bounded(runs: Sequence[Callable[[], Awaitable[object]]], window: int) -> list[Any]:
    """Run all, at most `window` at a time; return the results in order. The first failure ends it.

    Only so many coroutines exist at a time, however many runs there are.
    """
    results: list[object] = [None] * len(runs)
    numbered = iter(enumerate(runs))
    workers = [
        asyncio.ensure_future(_work(numbered, results)) for _ in range(min(window, len(runs)))
    ]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
    return results


async def _work(
    numbered: Iterable[tuple[int, Callable[[], Awaitable[object]]]], results: list[object]
) -> None:
    for number, run in numbered:
        results[number] = await run()
