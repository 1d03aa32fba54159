"""The jobs and offers of simulated peers: every policy of the core, in all combinations."""

from dataclasses import replace
from random import Random
from typing import Final
from zlib import crc32

from dragoman.core.events import JobSubmitted, WorkerJoined
from dragoman.model.body import Body
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.labels import PREFETCH
from dragoman.model.limit import NO_LIMIT, Limit
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.parent import Parent
from dragoman.model.retry import Retry
from dragoman.model.target import ALL, ANY, Labelled, Named, OnResource, Target
from dragoman.model.terms import BALANCES, Terms
from dragoman.model.unique import Unique

#: The link of every simulated peer of the core level.
LINK: Final = "local"
SERVICES: Final = tuple(map(ServiceName, ("a", "b", "c")))
#: A service without workers until the world has healed.
LATER: Final = ServiceName("later")
ZONES: Final = ("eu", "us")
RESOURCES: Final = ("r0", "r1", "r2")
#: The client that gets two jobs in its turn.
HEAVY: Final = PeerId(f"{LINK}/c0")
#: Limits that jobs share by key, small enough to be reached.
LIMITS: Final = (
    Limit("one", concurrency=1),
    Limit("two", concurrency=2),
    Limit("slow", rate=2),
    Limit("slower", concurrency=3, rate=4, burst=2),
)
#: Unique keys that jobs fight for, and jobs that replace each other.
UNIQUES: Final = (
    Unique("queued", until="start"),
    Unique("open"),
    Unique("recent", period=3.0),
    Unique("quiet", quiet=1.0),
)
#: Limits of services and tasks that operators set.
RULES: Final = (NO_LIMIT, Limit(concurrency=1), Limit(concurrency=3), Limit(rate=3, burst=2))
#: The webhook of some jobs.
HOOK: Final = "https://hooks.example.org/"
#: Capacity for every job, offered by the workers that join when the world heals.
PLENTY: Final = Capacity(64, 1 << 40, 1 << 40, 64, 64)


def draw_target(random: Random, names: tuple[WorkerName, ...]) -> Target:
    """Draw the target of a job."""
    draw = random.random()
    if draw < 0.60:
        return ANY
    if draw < 0.70:
        return ALL
    if draw < 0.80:
        return Named(tuple(random.sample(names, random.randint(1, min(2, len(names))))))
    if draw < 0.90:
        return Labelled(random.choice(("zone=eu", "zone in (eu, us)", "!zone", "zone=mars")))
    return OnResource(random.choice((("r0",), ("r1", "r2"), ("r*",))))


def draw_terms(random: Random) -> Terms:
    """Draw the terms of a job."""
    pick = random.choice
    return Terms(
        patience=pick((0.0, 2.0, 10.0, 60.0, None)),
        queue_timeout=pick((None, None, None, 5.0)),
        run_timeout=pick((None, None, 3.0, 10.0)),
        timeout=pick((None, None, None, 8.0, 30.0)),
        max_attempts=pick((1, 2, 3, 5)),
        backoff=pick((0.0, 0.0, 0.5)),
        priority=pick((0, 0, 0, 1, 5)),
        balance=pick(BALANCES) if random.random() < 0.2 else BALANCES[0],
        needs=pick((Capacity(cpu=1.0), Capacity(slots=1))) if random.random() < 0.2 else NOTHING,
        strict=random.random() < 0.8,
        cancel_grace=pick((0.5, 5.0)),
        memoize=random.random() < 0.1,
        retry=draw_retry(random),
        delay=pick((0.0, 0.0, 0.0, 0.0, 0.7, 4.0)),
        unique=pick(UNIQUES) if random.random() < 0.2 else None,
        limit=pick(LIMITS) if random.random() < 0.3 else None,
    )


def draw_retry(random: Random) -> Retry | None:
    """Draw the retries of a job."""
    if random.random() < 0.5:
        return None
    pick = random.choice
    return Retry(
        pick((1, 2, 4)),
        backoff=pick((0.0, 0.3, 2.0)),
        factor=pick((1.0, 2.0)),
        longest=4.0,
        jitter=pick((0.0, 0.5)),
        on=pick((("task_failed",), ("task_failed", "run_timeout"))),
    )


def draw_job(
    random: Random, job: JobId, client: PeerId, names: tuple[WorkerName, ...]
) -> JobSubmitted:
    """Draw one request. Memoised requests use few different bodies, so that some repeat."""
    terms = draw_terms(random)
    question = f"q{random.randrange(4)}" if terms.memoize else f"q-{job}"
    draw = random.random()
    service = random.choice(SERVICES)
    if draw < 0.04:
        service = LATER
    elif draw < 0.08:
        service = ServiceName("all")
    if client == HEAVY:
        terms = replace(terms, weight=2)
    hook = HOOK if crc32(f"hook of {job}".encode()) % 6 == 0 else ""
    terms = replace(terms, result_ttl=ttl_of(job), webhook=hook)
    return JobSubmitted(
        job,
        client,
        service,
        Body(LINK, (question.encode(), b"x" * random.randrange(20))),
        draw_target(random, names),
        terms,
        "task",
        f"key-{job}" if random.random() < 0.15 else "",
    )


def ttl_of(job: str) -> float | None:
    """Return how long the result of a job lasts. Drawn from its id: no other draw changes."""
    return {0: 0.5, 1: 4.0}.get(crc32(f"lifetime of {job}".encode()) % 8)


def is_stubborn(job: str) -> bool:
    """Tell whether the task of a job, which has no children, asks for another try each time."""
    draw = crc32(job.encode())
    return draw % 4 != 0 and (draw >> 8) % 12 == 0


def children_of(job: JobId, worker: PeerId) -> list[JobSubmitted]:
    """Return the children that a job's task submits: the same in each run of the task."""
    draw = crc32(job.encode())
    count = draw % 3 if draw % 4 == 0 and job.count("/") < 2 else 0
    return [child_of(Parent(job, position), worker) for position in range(1, count + 1)]


def child_of(parent: Parent, worker: PeerId, failed: int = 0) -> JobSubmitted:
    """Return one child, after so many that failed at its position."""
    job = JobId(f"{parent.job}/{parent.position}" + (f"~{failed}" if failed else ""))
    random = Random(f"{parent.job}/{parent.position}")
    terms = replace(draw_terms(random), parent=parent, memoize=False, limit=None, unique=None)
    # Short: a parent that runs again needs the result although its time is over.
    terms = replace(terms, result_ttl=0.2 if crc32(job.encode()) % 2 else None)
    body = Body(LINK, (f"q-{parent.job}/{parent.position}".encode(), b""))
    client = PeerId(f"{worker}-children")
    return JobSubmitted(job, client, random.choice(SERVICES), body, ANY, terms, "task")


def draw_offer(random: Random, name: WorkerName) -> WorkerJoined:
    """Draw what a worker offers."""
    beats = random.random() < 0.85
    credit: int | None = None
    if random.random() < 0.6:
        credit = random.choice((1, 2, 4))
    labels = {"zone": random.choice(ZONES)} if random.random() < 0.6 else {}
    if random.random() < 0.5:
        labels[PREFETCH] = random.choice(("2", "8"))
    return WorkerJoined(
        PeerId(f"{LINK}/{name}"),
        name,
        tuple(random.sample(SERVICES, random.choice((1, 1, 2, 3)))),
        credit=credit,
        credit_returns=random.random() < 0.5,
        beat_every=random.choice((0.5, 1.0, 2.0)) if beats else None,
        missed_allowed=random.choice((3, 6)),
        missed_allowed_busy=random.choice((None, 10)),
        labels=labels,
        capacity=Capacity(2.0, 0, 0, 0, 2) if random.random() < 0.3 else None,
        resources=tuple(random.sample(RESOURCES, random.choice((0, 1, 2)))),
        can_cancel=random.random() < 0.7,
        dialect=LINK,
    )


def plentiful_offer(name: WorkerName) -> WorkerJoined:
    """Return an offer that suits every simulated job."""
    return WorkerJoined(
        PeerId(f"{LINK}/heal-{name}"),
        name,
        (*SERVICES, LATER),
        beat_every=1.0,
        labels={"zone": "mars" if name == "mars" else "eu"} if name != "plain" else {},
        capacity=PLENTY,
        resources=RESOURCES,
        can_cancel=True,
        dialect=LINK,
    )
