"""The large values of a client: arguments are stored before their job is submitted."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dragoman.dialects.peer_sides import Submission
from dragoman.model.content import Unmappable
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.files import FILES, AsyncFiles
from dragoman.sdk.jobs import AsyncJob
from dragoman.sdk.large_values import LARGEST, LargeValues, ValueLost, load, store_arguments


class ValueUploads:
    """Stores arguments of jobs, then has the jobs sent. Loads the values of references."""

    def __init__(
        self,
        values: LargeValues | None,
        files: AsyncFiles,
        send: Callable[[AsyncJob], None],
        drop: Callable[[AsyncJob], None],
    ) -> None:
        self._values = values
        self._files = files
        self._send = send
        self._drop = drop
        self._tasks: set[asyncio.Task[None]] = set()
        #: By URL: many jobs may have the same value.
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def concern(self, submission: Submission) -> bool:
        """Whether an argument of a job is stored first. Pieces of files are stored themselves."""
        values = self._values
        return (
            values is not None and submission.service != FILES and values.has_large(submission.call)
        )

    def begin(self, job: AsyncJob) -> None:
        """Have a job sent as soon as its large arguments are stored."""
        assert self._values is not None
        job.is_being_stored = True
        task = asyncio.create_task(
            self._store(job, self._values), name=f"dragoman arguments of {job.id}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store(self, job: AsyncJob, values: LargeValues) -> None:
        try:
            call = await store_arguments(job.submission.call, values, self._upload)
            job.submission = replace(job.submission, call=call)
            job.is_being_stored = False
            self._send(job)
        except (DragomanError, Unmappable) as error:
            self._drop(job)
            job.give_up(ValueLost(f"job {job.id} was not submitted: {error}"))

    async def _upload(self, data: bytes, url: str) -> None:
        task = self._under_way.get(url)
        if task is None:
            task = asyncio.create_task(self._files.put_bytes(data, url), name=f"dragoman {url}")
            self._under_way[url] = task
            task.add_done_callback(lambda _: self._under_way.pop(url, None))
        await asyncio.shield(task)

    async def load(self, found: object) -> Any:
        """Return the value of a reference; another value as it is. Raises `ValueLost`."""
        largest = LARGEST if self._values is None else self._values.largest
        return await load(found, self._files.read, largest)

    def close(self) -> None:
        """Stop storing. Jobs that were not sent never will be."""
        for task in (*self._tasks, *self._under_way.values()):
            task.cancel()
