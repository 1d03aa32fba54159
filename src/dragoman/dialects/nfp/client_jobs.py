"""The state of each client's jobs, and the form of a result for that client.

NorFab's client waits for exactly the workers of the first 202. If the only one of them was lost and
another worker finished the job, the result must be keyed by the announced name.
"""

from dragoman.dialects.base import BodyCodecs, convert_answer
from dragoman.dialects.nfp import bodies
from dragoman.dialects.nfp.body_codec import NAME, result_object, write
from dragoman.dialects.nfp.contents import OK, Content, split_answer
from dragoman.dialects.nfp.faults import status_of
from dragoman.dialects.nfp.peers import Bounded, Peer
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId

#: Default worker name in a result.
DEFAULT_WORKER = "dragoman"
_NOBODY: frozenset[str] = frozenset()


class ClientJobState:
    """What was sent to a client about one of its jobs, and the target it used."""

    __slots__ = ("announced", "answered", "question", "service", "target")

    def __init__(self, service: str, target: str = "any") -> None:
        self.service = service
        self.target = target
        #: The workers of the first 202.
        self.announced: tuple[str, ...] = ()
        #: Workers whose part was answered, in a job with several parts.
        self.answered = _NOBODY
        #: The last question of a worker, as it was sent.
        self.question: bytes | None = None


class ClientJobs:
    """The jobs of all clients, within bounds."""

    def __init__(self, settings: NfpSettings) -> None:
        #: Removed when the end of the job was sent.
        self.open: Bounded[tuple[PeerId, JobId], ClientJobState] = Bounded(settings.remembered_jobs)
        #: Targets of the GETs that the core has not answered yet, oldest first.
        self.gets: Bounded[tuple[PeerId, JobId], list[str]] = Bounded(settings.remembered_peers)
        #: Services that unanswered GETs and DELETEs name, for the answer about an unknown job.
        self.services: Bounded[tuple[PeerId, JobId], str] = Bounded(settings.remembered_peers)
        #: How many POSTs of a synchronous client have no reply yet.
        self.posts: Bounded[tuple[PeerId, JobId], int] = Bounded(settings.remembered_peers)

    def add_post(self, client: PeerId, job: JobId) -> None:
        """Remember that a POST waits for its one reply."""
        self.posts.remember((client, job), self.posts.get((client, job), 0) + 1)

    def take_post(self, client: PeerId, job: JobId) -> bool:
        """Return whether a POST waits for its reply, and forget it."""
        waiting = self.posts.pop((client, job), 0)
        if waiting > 1:
            self.posts[client, job] = waiting - 1
        return waiting > 0

    def add_get(self, client: PeerId, job: JobId, target: str) -> None:
        """Remember the target of a GET."""
        targets = self.gets.get((client, job))
        if targets is None:
            targets = self.gets.remember((client, job), [])
        targets.append(target)

    def take_get(self, client: PeerId, job: JobId) -> str:
        """Return the target of the oldest unanswered GET, and forget it."""
        targets = self.gets.get((client, job))
        if not targets:
            return "all"
        target = targets.pop(0)
        if not targets:
            del self.gets[client, job]
        return target


def name_for(worker: str, announced: tuple[str, ...]) -> str:
    """Return the name under which the client knows a worker: it may have taken over."""
    return announced[0] if len(announced) == 1 else worker


def result_content(
    codecs: BodyCodecs,
    peer: Peer,
    worker: str,
    body: Body | None,
    fault: Fault | None,
    job: str,
    service: str,
    resources: tuple[str, ...] = (),
) -> tuple[bytes, Content]:
    """Return status and content frames of a result. A worker's own failing status is passed on."""
    if body is not None and body.dialect == NAME and body.parts:
        content, status = split_answer(body.parts)
        if status != OK:
            return status, content
        if peer.is_binary or any(content):
            return _result_status(peer, fault), content
        # NorFab's client reads JSON only, so it gets an empty result in NorFab's form.
        body = None
    try:
        result = _converted(codecs, worker, body, resources)
    except Unmappable as error:
        result, fault = b"", Fault(FaultCode.UNMAPPABLE, str(error))
    if not result:
        empty = Answer(fault=fault, resources=resources)
        result = write({worker or DEFAULT_WORKER: result_object(empty, job=job, service=service)})
    return _result_status(peer, fault), (result,)


def _converted(
    codecs: BodyCodecs, worker: str, body: Body | None, resources: tuple[str, ...]
) -> bytes:
    """Convert a result of another dialect; empty if there is none."""
    if body is None or not body.parts:
        return b""
    return convert_answer(codecs, body, NAME, worker or DEFAULT_WORKER, resources).parts[0]


def _result_status(peer: Peer, fault: Fault | None) -> bytes:
    """Return the status of a result. NorFab puts a failure into a 200; in the text 200 is success.

    So the status of a failure differs by variant, and the body is the same.
    """
    return status_of(fault.code, True) if fault is not None and peer.is_binary else OK


def renamed(content: Content, worker: str, name: str) -> Content:
    """Key a result by the name that its client waits for."""
    if name == worker or not content:
        return content
    return bodies.rekey(content[0], worker, name), *content[1:]
