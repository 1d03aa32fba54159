"""A client's end of HTTP, for the SDK.

All notices come through the inbox, one event stream; requests only submit and ask. When the inbox
opens again, notices may be lost, so the client asks about every open job. Submissions that wait for
the one before them travel together.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dragoman.dialects.base import Frames
from dragoman.dialects.http.batching import MOST_BYTES, Batching, json_list
from dragoman.dialects.http.body_codec import code_of, write
from dragoman.dialects.http.exchange import FIRST, STREAM, Response, read, request, segment
from dragoman.dialects.json_values import from_jsonable
from dragoman.dialects.peer_sides import (
    Chunk,
    ClientNotice,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Published,
    Queued,
    SendNow,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName

_LANE: Final = "client"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._@-]")
#: Statuses of permanent refusals that name no fault.
_REFUSED: Final = {
    400: FaultCode.BAD_REQUEST,
    413: FaultCode.TOO_LARGE,
    415: FaultCode.BAD_REQUEST,
    421: FaultCode.DENIED,
}


class HttpClientSide:
    """One client: writes its requests, reads responses and notices."""

    def __init__(self, name: str) -> None:
        self._headers = {"Dragoman-Client": _NOT_IN_NAMES.sub("-", name).lstrip("._@-")[:128]}
        #: Open jobs, and whether the broker has acknowledged them.
        self._jobs: dict[JobId, bool] = {}
        #: Jobs to cancel as soon as the broker acknowledges them.
        self._to_cancel: set[JobId] = set()
        #: Submissions as JSON. Large ones and raw ones go alone.
        self._submissions = Batching()
        self._answers: dict[str, Callable[[JobId, Response], list[ClientNotice]]] = {
            "submit": self._submitted,
            "result": self._result,
            "cancel": self._cancelled,
            "input": lambda job, response: [],
        }
        self._notices: dict[str, Callable[[JobId, dict[str, object]], list[ClientNotice]]] = {
            "queued": lambda job, content: [Queued(job)],
            "dispatched": _dispatched,
            "progress": lambda job, content: [
                Progress(job, from_jsonable(content.get("value")), _worker(content))
            ],
            "chunk": _chunk,
            "input_asked": _input_asked,
            "final": self._final,
        }

    def hello(self) -> list[Frames]:
        """Open the inbox, before any other request."""
        return [request("inbox", "GET", "/v1/inbox", mode=FIRST, headers=self._headers)]

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job."""
        self._jobs.setdefault(submission.job, False)
        call = submission.call
        terms: dict[str, object] = {
            "job": submission.job,
            "service": submission.service,
            "task": call.task,
            "target": str(submission.target),
            "priority": submission.priority,
            "key": submission.key,
        }
        terms |= submission.options
        if call.timeout is not None:
            terms["timeout"] = call.timeout
        if call.raw is not None:
            frames = self._ask(
                "submit", submission.job, "POST", "/v1/jobs", raw=call.raw, query=terms
            )
            return [*self._waiting_batches(), frames]
        content = terms | {"args": call.args, "kwargs": call.kwargs}
        content["headers"] = dict(call.headers)
        encoded = write(content)
        if len(encoded) > MOST_BYTES:
            return [*self._waiting_batches(), self._submit_alone(submission.job, encoded)]
        self._submissions.add(submission.job, encoded)
        return self._next_batch()

    def _submit_alone(self, job: str, encoded: bytes) -> Frames:
        return self._ask("submit", job, "POST", "/v1/jobs", encoded=encoded)

    def _next_batch(self) -> list[Frames]:
        """Send the submissions that wait, unless some are under way."""
        batch = self._submissions.start()
        return [self._submit_batch(*batch)] if batch else []

    def _waiting_batches(self) -> Iterator[Frames]:
        """Send all submissions that wait, so that the next one does not overtake them."""
        while batch := self._submissions.start_another():
            yield self._submit_batch(*batch)

    def _submit_batch(self, number: int, batch: list[tuple[str, bytes]]) -> Frames:
        content = json_list("jobs", batch)
        return self._ask("bulk", str(number), "POST", "/v1/jobs/bulk", encoded=content)

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job."""
        self._jobs.setdefault(job, True)
        return [self._ask("result", job, "GET", f"/v1/jobs/{segment(job)}/result")]

    def cancel(self, job: JobId) -> list[Frames]:
        """Cancel a job; if it is not acknowledged yet, cancel it then."""
        if self._jobs.get(job) is False:
            self._to_cancel.add(job)
            return []
        # Outside the lane: the response waits until the worker confirms.
        return [self._ask("cancel", job, "DELETE", f"/v1/jobs/{segment(job)}", lane="")]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        content = {"request": request, "value": answer, "worker": worker}
        return [self._ask("input", job, "POST", f"/v1/jobs/{segment(job)}/input", content)]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Subscribe to events, from the ledger position `after` on."""
        query = {"topic": list(topics), "after": after}
        return [
            request("events", "GET", "/v1/events", mode=STREAM, query=query, headers=self._headers)
        ]

    def forget(self, job: JobId) -> None:
        """Forget a job whose caller no longer waits."""
        self._jobs.pop(job, None)
        self._to_cancel.discard(job)

    def _ask(
        self, what: str, of: str, method: str, path: str, content: object = None, **more: Any
    ) -> Frames:
        lane = more.pop("lane", _LANE)
        headers = self._headers
        return request(f"{what}:{of}", method, path, content, lane=lane, headers=headers, **more)

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Read one response or event; unreadable ones are ignored."""
        response = read(frames)
        if response is None:
            return []
        if response.tag == "inbox":
            return self._inbox(response)
        if response.tag == "events":
            return _published(response)
        what, _, job = response.tag.partition(":")
        if what == "bulk":
            return self._batch_submitted(int(job), response)
        handle = self._answers.get(what)
        return handle(JobId(job), response) if handle else []

    def _inbox(self, response: Response) -> list[ClientNotice]:
        if response.event == "open":
            known = [job for job, is_taken in self._jobs.items() if is_taken]
            return [SendNow(frames) for job in known for frames in self.ask(job)]
        content = response.json()
        job = JobId(str(content.get("job", "")))
        handle = self._notices.get(str(content.get("kind")))
        return handle(job, content) if handle and job in self._jobs else []

    def _batch_submitted(self, number: int, response: Response) -> list[ClientNotice]:
        """Read the outcome of each submission, and send those that have come since."""
        batch, notices = self._submissions.end(number), list[ClientNotice]()
        if response.status == 413 and len(batch) > 1:
            # Each may be small enough alone.
            notices += [SendNow(self._submit_alone(job, encoded)) for job, encoded in batch]
        elif response.status != 200:
            problem = response.json() | {"status": response.status}
            notices += [n for job, _ in batch for n in self._refused(JobId(job), problem)]
        else:
            outcomes = response.json().get("jobs")
            # By position: a job that the broker could not read has no id in its outcome.
            found = zip(batch, outcomes if isinstance(outcomes, list) else (), strict=False)
            for (job, _), item in found:
                notices += self._outcome(JobId(job), item) if isinstance(item, dict) else []
        return [*notices, *(SendNow(frames) for frames in self._next_batch())]

    def _outcome(self, job: JobId, item: dict[str, object]) -> list[ClientNotice]:
        return self._refused(job, item) if "code" in item else self._taken(job)

    def _submitted(self, job: JobId, response: Response) -> list[ClientNotice]:
        if response.status >= 300:
            return self._refused(job, response.json() | {"status": response.status})
        return self._taken(job)

    def _taken(self, job: JobId) -> list[ClientNotice]:
        if job not in self._jobs:
            return []
        self._jobs[job] = True
        notices: list[ClientNotice] = [Queued(job)]
        if job in self._to_cancel:
            self._to_cancel.discard(job)
            notices += [SendNow(frames) for frames in self.cancel(job)]
        return notices

    def _refused(self, job: JobId, problem: dict[str, Any]) -> list[ClientNotice]:
        """End a job that is refused permanently; the SDK repeats the others."""
        detail = str(problem.get("detail", ""))
        if "definite" in problem:
            return self._end(job, Fault(code_of(str(problem.get("code"))), detail))
        code = _REFUSED.get(problem.get("status", 0))
        return self._end(job, Fault(code, detail)) if code else []

    def _end(
        self,
        job: JobId,
        fault: Fault | None,
        answers: tuple[Answer, ...] = (),
        state: str = "",
    ) -> list[ClientNotice]:
        if self._jobs.pop(job, None) is None:
            return []
        self._to_cancel.discard(job)
        ended = JobState(state) if state in _STATES else None
        return [Finished(job, answers, fault, ended)]

    def _final(self, job: JobId, content: dict[str, object]) -> list[ClientNotice]:
        state, worker = str(content.get("state", "")), _worker(content)
        if state and not worker and "fault" not in content:
            # The job had several parts; one request returns all results.
            return [SendNow(frames) for frames in self.ask(job)]
        fault = _fault(content)
        answers = () if fault else (_answer(worker, content),)
        return self._end(job, fault, answers, state)

    def _result(self, job: JobId, response: Response) -> list[ClientNotice]:
        content = response.json()
        state = str(content.get("state", ""))
        if response.status == 202:
            return [StatusNotice(job, state)]
        results = content.get("results")
        each = results.items() if isinstance(results, dict) else ()
        answers = tuple(_answer(name, found) for name, found in each if isinstance(found, dict))
        if response.status == 200:
            return self._end(job, None, answers or (_answer(_worker(content), content),), state)
        if "definite" in content:
            fault = Fault(code_of(str(content.get("code"))), str(content.get("detail", "")))
            return self._end(job, fault, answers, state)
        return []

    def _cancelled(self, job: JobId, response: Response) -> list[ClientNotice]:
        content = response.json()
        if response.status != 200:
            return [StatusNotice(job, "unknown", str(content.get("detail", "")))]
        fault = _fault(content)
        detail = fault.message if fault else str(content.get("state", ""))
        return [StatusNotice(job, str(content.get("state", "")), detail)]


_STATES: Final = frozenset(state.value for state in JobState)


def _worker(content: dict[str, object]) -> str:
    return str(content.get("worker", ""))


def _fault(content: dict[str, object]) -> Fault | None:
    found = content.get("fault")
    if not isinstance(found, dict):
        return None
    return Fault(code_of(str(found.get("code"))), str(found.get("message", "")))


def _answer(worker: str, content: dict[str, object]) -> Answer:
    found, names = from_jsonable(content.get("value")), content.get("resources")
    resources = tuple(map(str, names)) if isinstance(names, list) else ()
    worker = _worker(content) or worker
    if content.get("raw") is True and isinstance(found, bytes):
        return Answer(raw=found, worker=worker, resources=resources)
    return Answer(found, fault=_fault(content), worker=worker, resources=resources)


def _dispatched(job: JobId, content: dict[str, object]) -> list[ClientNotice]:
    names = content.get("workers")
    workers = tuple(map(str, names)) if isinstance(names, list) else ()
    return [Dispatched(job, tuple(map(WorkerName, workers)))]


def _chunk(job: JobId, content: dict[str, object]) -> list[ClientNotice]:
    piece = from_jsonable(content.get("value"))
    data = piece if isinstance(piece, bytes) else str(piece).encode()
    return [Chunk(job, data, _worker(content))]


def _input_asked(job: JobId, content: dict[str, object]) -> list[ClientNotice]:
    """Return a worker's question; one without a name is named by its job."""
    request = str(content.get("request") or job)
    return [InputAsked(job, request, from_jsonable(content.get("value")), _worker(content))]


def _published(response: Response) -> list[ClientNotice]:
    content = response.json()
    seq = content.get("seq")
    if not isinstance(seq, int):
        return []
    return [Published(seq, str(content.get("topic", "")), from_jsonable(content.get("event")))]
