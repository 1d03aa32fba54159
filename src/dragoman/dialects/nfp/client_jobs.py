"""What clients were told about their jobs, and the form a result takes for them.

NorFab's client waits for exactly the workers of the first 202. When the only one of them was lost
and another finished the job, its result must bear the name the client waits for.
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

#: Who a result of nobody in particular is by.
NOBODY = "dragoman"


class ClientJobState:
    """What a client was told about one of its jobs, and how it asked."""

    __slots__ = ("announced", "answered", "question", "service", "target")

    def __init__(self, service: str, target: str = "any") -> None:
        self.service = service
        self.target = target
        #: The workers of the first 202.
        self.announced: tuple[str, ...] = ()
        #: Workers whose part was answered, in a job of several.
        self.answered: set[str] = set()
        #: The last question a worker asked, as it was sent.
        self.question: bytes | None = None


class ClientJobs:
    """All that is remembered of clients' jobs, within bounds."""

    def __init__(self, settings: NfpSettings) -> None:
        #: Gone when the job's end was told.
        self.told: Bounded[tuple[PeerId, JobId], ClientJobState] = Bounded(settings.remembered_jobs)
        #: Targets of the GETs that the core has not answered yet, oldest first.
        self.asked: Bounded[tuple[PeerId, JobId], list[str]] = Bounded(settings.remembered_peers)

    def asks(self, client: PeerId, job: JobId, target: str) -> None:
        """Remember how a client asked."""
        asked = self.asked.get((client, job))
        if asked is None:
            asked = self.asked.remember((client, job), [])
        asked.append(target)

    def take_asked(self, client: PeerId, job: JobId) -> str:
        """Return how a client asked, for the first question that is open."""
        asked = self.asked.get((client, job))
        if not asked:
            return "all"
        target = asked.pop(0)
        if not asked:
            del self.asked[client, job]
        return target


def name_for(worker: str, announced: tuple[str, ...]) -> str:
    """Name a worker as its client was told: it may have taken over from the only one."""
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
    """Dress a result for NFP; what cannot be dressed, or is missing, becomes a failed one."""
    if body is not None and body.parts:
        try:
            return convert_answer(codecs, body, NAME, worker or NOBODY, resources).parts[0]
        except Unmappable as why:
            fault = Fault(FaultCode.UNMAPPABLE, str(why))
    made = result_object(Answer(fault=fault, resources=resources), job=job, service=service)
    return write({worker or NOBODY: made})


def renamed(result: bytes, worker: str, name: str) -> bytes:
    """Give a result the name its client waits for."""
    return result if name == worker else bodies.rekey(result, worker, name)
