"""The state of each client's jobs, and the form of a result for that client.

NorFab's client waits for exactly the workers of the first 202. If the only one of them was lost and
another worker finished the job, the result must be keyed by the announced name.
"""

from dragoman.dialects.base import BodyCodecs, convert_answer
from dragoman.dialects.nfp import bodies
from dragoman.dialects.nfp.body_codec import NAME, result_object, write
from dragoman.dialects.nfp.peers import Bounded
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId

#: Default worker name in a result.
DEFAULT_WORKER = "dragoman"


class ClientJobState:
    """What was sent to a client about one of its jobs, and the target it used."""

    __slots__ = ("announced", "answered", "question", "service", "target")

    def __init__(self, service: str, target: str = "any") -> None:
        self.service = service
        self.target = target
        #: The workers of the first 202.
        self.announced: tuple[str, ...] = ()
        #: Workers whose part was answered, in a job with several parts.
        self.answered: set[str] = set()
        #: The last question of a worker, as it was sent.
        self.question: bytes | None = None


class ClientJobs:
    """The jobs of all clients, within bounds."""

    def __init__(self, settings: NfpSettings) -> None:
        #: Removed when the end of the job was sent.
        self.open: Bounded[tuple[PeerId, JobId], ClientJobState] = Bounded(settings.remembered_jobs)
        #: Targets of the GETs that the core has not answered yet, oldest first.
        self.gets: Bounded[tuple[PeerId, JobId], list[str]] = Bounded(settings.remembered_peers)

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


def result_body(
    codecs: BodyCodecs,
    worker: str,
    body: Body | None,
    fault: Fault | None,
    job: str,
    service: str,
    resources: tuple[str, ...] = (),
) -> bytes:
    """Encode a result for NFP. One that is missing or has no NFP form becomes a failure."""
    if body is not None and body.parts:
        try:
            return convert_answer(codecs, body, NAME, worker or DEFAULT_WORKER, resources).parts[0]
        except Unmappable as error:
            fault = Fault(FaultCode.UNMAPPABLE, str(error))
    result = result_object(Answer(fault=fault, resources=resources), job=job, service=service)
    return write({worker or DEFAULT_WORKER: result})


def renamed(result: bytes, worker: str, name: str) -> bytes:
    """Key a result by the name that its client waits for."""
    return result if name == worker else bodies.rekey(result, worker, name)
