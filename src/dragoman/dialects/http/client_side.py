"""A client's end of the HTTP door, for our own SDK.

All that the client is told comes through its inbox, one stream; requests only ask. When the inbox
begins anew, something may have been missed, so every open job is asked about.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from dragoman.dialects.base import Frames
from dragoman.dialects.http.body_codec import code_of
from dragoman.dialects.http.exchange import FIRST, STREAM, Response, read, request, segment
from dragoman.dialects.json_values import from_jsonable, to_jsonable
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
#: What the door itself refuses for good, before the broker sees it.
_REFUSED: Final = {
    400: FaultCode.BAD_REQUEST,
    413: FaultCode.TOO_LARGE,
    415: FaultCode.BAD_REQUEST,
    421: FaultCode.DENIED,
}


class HttpClientSide:
    """HTTP as a client speaks it."""

    def __init__(self, name: str) -> None:
        self._headers = {"Dragoman-Client": _NOT_IN_NAMES.sub("-", name).lstrip("._@-")[:128]}
        #: Open jobs, and whether the broker said that it has them.
        self._jobs: dict[JobId, bool] = {}
        #: Jobs to be cancelled as soon as the broker has them.
        self._to_cancel: set[JobId] = set()
        self._answers: dict[str, Callable[[JobId, Response], list[ClientNotice]]] = {
            "submit": self._submitted,
            "result": self._result,
            "cancel": self._cancelled,
            "input": lambda job, response: [],
        }
        self._told: dict[str, Callable[[JobId, dict[str, Any]], list[ClientNotice]]] = {
            "queued": lambda job, said: [Queued(job)],
            "dispatched": _dispatched,
            "progress": lambda job, said: [
                Progress(job, from_jsonable(said.get("value")), _of(said))
            ],
            "chunk": _chunk,
            "input_asked": _asked,
            "final": self._final,
        }

    def hello(self) -> list[Frames]:
        """Open the inbox, before anything is asked for."""
        return [request("inbox", "GET", "/v1/inbox", mode=FIRST, headers=self._headers)]

    def submit(self, order: Submission) -> list[Frames]:
        """Ask for work."""
        self._jobs.setdefault(order.job, False)
        call = order.call
        terms: dict[str, Any] = {
            "job": order.job,
            "service": order.service,
            "task": call.task,
            "target": str(order.target),
            "priority": order.priority,
            "key": order.key,
        }
        if call.timeout is not None:
            terms["timeout"] = call.timeout
        if call.raw is not None:
            return [self._ask("submit", order.job, "POST", "/v1/jobs", raw=call.raw, query=terms)]
        said = terms | {"args": to_jsonable(call.args), "kwargs": to_jsonable(call.kwargs)}
        said["headers"] = dict(call.headers)
        return [self._ask("submit", order.job, "POST", "/v1/jobs", said)]

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job."""
        self._jobs.setdefault(job, True)
        return [self._ask("result", job, "GET", f"/v1/jobs/{segment(job)}/result")]

    def cancel(self, job: JobId) -> list[Frames]:
        """Ask for a job to stop, once the broker has it."""
        if self._jobs.get(job) is False:
            self._to_cancel.add(job)
            return []
        # Not in the lane: it is answered when the worker has confirmed.
        return [self._ask("cancel", job, "DELETE", f"/v1/jobs/{segment(job)}", lane="")]

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        said = {"request": request, "value": answer, "worker": worker}
        return [self._ask("input", job, "POST", f"/v1/jobs/{segment(job)}/input", said)]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Ask for events, from the ledger position `after` on."""
        query = {"topic": list(topics), "after": after}
        return [
            request("events", "GET", "/v1/events", mode=STREAM, query=query, headers=self._headers)
        ]

    def forget(self, job: JobId) -> None:
        """Stop waiting for a job whose caller has given up."""
        self._jobs.pop(job, None)
        self._to_cancel.discard(job)

    def _ask(
        self, what: str, job: JobId, method: str, path: str, said: Any = None, **more: Any
    ) -> Frames:
        lane = more.pop("lane", _LANE)
        headers = self._headers
        return request(f"{what}:{job}", method, path, said, lane=lane, headers=headers, **more)

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Take one message in; what cannot be read is ignored."""
        response = read(frames)
        if response is None:
            return []
        if response.tag == "inbox":
            return self._inbox(response)
        if response.tag == "events":
            return _published(response)
        what, _, job = response.tag.partition(":")
        take = self._answers.get(what)
        return take(JobId(job), response) if take else []

    def _inbox(self, response: Response) -> list[ClientNotice]:
        if response.event == "open":
            known = [job for job, is_taken in self._jobs.items() if is_taken]
            return [SendNow(frames) for job in known for frames in self.ask(job)]
        said = response.json()
        job = JobId(str(said.get("job", "")))
        take = self._told.get(str(said.get("kind")))
        return take(job, said) if take and job in self._jobs else []

    def _submitted(self, job: JobId, response: Response) -> list[ClientNotice]:
        if response.status >= 300:
            return self._refused(job, response)
        if job not in self._jobs:
            return []
        self._jobs[job] = True
        notices: list[ClientNotice] = [Queued(job)]
        if job in self._to_cancel:
            self._to_cancel.discard(job)
            notices += [SendNow(frames) for frames in self.cancel(job)]
        return notices

    def _refused(self, job: JobId, response: Response) -> list[ClientNotice]:
        """End a job that was refused for good; for the rest the client asks again by itself."""
        said = response.json()
        words = str(said.get("detail", ""))
        if "definite" in said:
            return self._end(job, Fault(code_of(str(said.get("code"))), words))
        if response.status in _REFUSED:
            return self._end(job, Fault(_REFUSED[response.status], words))
        return []

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

    def _final(self, job: JobId, said: dict[str, Any]) -> list[ClientNotice]:
        state, worker = str(said.get("state", "")), _of(said)
        if state and not worker and "fault" not in said:
            # It had several parts; all of them together are to be had in one answer.
            return [SendNow(frames) for frames in self.ask(job)]
        fault = _fault(said)
        answers = () if fault else (_answer(worker, said),)
        return self._end(job, fault, answers, state)

    def _result(self, job: JobId, response: Response) -> list[ClientNotice]:
        said = response.json()
        state = str(said.get("state", ""))
        if response.status == 202:
            return [StatusNotice(job, state)]
        results = said.get("results")
        each = results.items() if isinstance(results, dict) else ()
        answers = tuple(_answer(name, found) for name, found in each if isinstance(found, dict))
        if response.status == 200:
            return self._end(job, None, answers or (_answer(_of(said), said),), state)
        if "definite" in said:
            fault = Fault(code_of(str(said.get("code"))), str(said.get("detail", "")))
            return self._end(job, fault, answers, state)
        return []

    def _cancelled(self, job: JobId, response: Response) -> list[ClientNotice]:
        said = response.json()
        if response.status != 200:
            return [StatusNotice(job, "unknown", str(said.get("detail", "")))]
        fault = _fault(said)
        words = fault.message if fault else str(said.get("state", ""))
        return [StatusNotice(job, str(said.get("state", "")), words)]


_STATES: Final = frozenset(state.value for state in JobState)


def _of(said: dict[str, Any]) -> str:
    return str(said.get("worker", ""))


def _fault(said: dict[str, Any]) -> Fault | None:
    found = said.get("fault")
    if not isinstance(found, dict):
        return None
    return Fault(code_of(str(found.get("code"))), str(found.get("message", "")))


def _answer(worker: str, said: dict[str, Any]) -> Answer:
    found, names = from_jsonable(said.get("value")), said.get("resources")
    resources = tuple(map(str, names)) if isinstance(names, list) else ()
    worker = _of(said) or worker
    if said.get("raw") is True and isinstance(found, bytes):
        return Answer(raw=found, worker=worker, resources=resources)
    return Answer(found, fault=_fault(said), worker=worker, resources=resources)


def _dispatched(job: JobId, said: dict[str, Any]) -> list[ClientNotice]:
    names = said.get("workers")
    workers = tuple(map(str, names)) if isinstance(names, list) else ()
    return [Dispatched(job, tuple(map(WorkerName, workers)))]


def _chunk(job: JobId, said: dict[str, Any]) -> list[ClientNotice]:
    piece = from_jsonable(said.get("value"))
    data = piece if isinstance(piece, bytes) else str(piece).encode()
    return [Chunk(job, data, _of(said))]


def _asked(job: JobId, said: dict[str, Any]) -> list[ClientNotice]:
    """Pass a question on; one from another dialect goes by its job."""
    request = str(said.get("request") or job)
    return [InputAsked(job, request, from_jsonable(said.get("value")), _of(said))]


def _published(response: Response) -> list[ClientNotice]:
    said = response.json()
    seq = said.get("seq")
    if not isinstance(seq, int):
        return []
    return [Published(seq, str(said.get("topic", "")), from_jsonable(said.get("event")))]
