"""Messages between brokers: what is written reads back, and nothing else is read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.mesh import wire
from dragoman.model.body import Body
from dragoman.model.capacity import Capacity
from dragoman.model.retry import Retry
from dragoman.model.terms import Terms

TERMS = Terms(
    patience=None,
    queue_timeout=3.0,
    run_timeout=4.0,
    max_attempts=2,
    backoff=0.5,
    priority=-3,
    balance="round_robin",
    needs=Capacity(0.5, 10, 20, 1, 2),
    strict=False,
    cancel_grace=2.0,
    memoize=True,
    retry=Retry(3, 0.5, 1.5, 60.0, 0.25, ("task_failed", "OSError")),
    origin="client nfp/x of broker west",
)
WORK = wire.Work("j1", "math", "add", wire.write_terms(TERMS, 9.5, ("west",)))
MESSAGES = [
    wire.Hello(),
    wire.Welcome(),
    wire.Strange(),
    wire.Beat(),
    wire.Offers([wire.Offer("math", 4, ["west", "north"])]),
    wire.Holds(["j1", "j2"]),
    WORK,
    wire.Cancel("j1"),
    wire.Input("j1"),
    wire.Poll("j1", 2),
    wire.Reply("j1", "final", "task_failed", "it failed", 2),
    wire.Ask("j1"),
    wire.Told("j1", "running", "on w1"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_reads_back(message: wire.MeshMessage) -> None:
    body = Body("nfp", (b"one", b"", b"three"))
    frames = wire.encode("west", "s1", message, body)
    assert wire.decode(frames) == wire.MeshEnvelope("west", "s1", message, body)
    assert wire.sender_of(frames) == "west"


def test_terms_read_back_with_the_time_that_is_left_and_the_way() -> None:
    read = wire.read_terms(WORK.terms)
    assert (read.timeout, read.path) == (9.5, ("west",))
    assert wire.write_terms(read, read.timeout, read.path) == WORK.terms
    assert (read.needs, read.retry, read.origin) == (TERMS.needs, TERMS.retry, TERMS.origin)


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("timeout", -1.0),
        ("timeout", float("nan")),
        ("max_attempts", 0),
        ("path", ["no/name"]),
        ("path", ["a"] * 65),
        ("balance", 7),
        ("priority", 2**40),
        ("needs", [1.0, 2**63, 0, 0, 0]),
        ("origin", "two\nlines"),
        ("strict", "yes"),
    ],
)
def test_terms_of_the_wrong_type_or_size_are_malformed(field: str, found: object) -> None:
    names = WORK.terms.__struct_fields__
    given_terms = [found if n == field else getattr(WORK.terms, n) for n in names]
    frames = wire.encode("west", "s1", wire.Hello())
    frames[3] = msgspec.msgpack.encode(["work", "j1", "math", "add", given_terms])
    with pytest.raises(MalformedMessage):
        wire.decode(frames)


@pytest.mark.parametrize("change", [{"balance": "unfair"}, {"retry": (1, 1.0, 0.5, 1.0, 0.0, [])}])
def test_terms_that_cannot_be_meant_are_malformed(change: dict[str, object]) -> None:
    fields = {n: getattr(WORK.terms, n) for n in WORK.terms.__struct_fields__}
    with pytest.raises(MalformedMessage):
        wire.read_terms(wire.WorkTerms(**(fields | change)))


@pytest.mark.parametrize("name", [b"", b"a/b", b"x" * 65, b"\xff", b"west\n"])
def test_a_sender_without_a_usable_name_is_malformed(name: bytes) -> None:
    frames = wire.encode("west", "s1", wire.Beat())
    frames[1] = name
    with pytest.raises(MalformedMessage):
        wire.decode(frames)


@pytest.mark.parametrize(("at", "frame"), [(2, b"s" * 65), (2, b"a b"), (4, b"\n"), (4, b"x" * 65)])
def test_a_session_or_dialect_that_is_no_short_word_is_malformed(at: int, frame: bytes) -> None:
    frames = wire.encode("west", "s1", wire.Beat())
    frames[at] = frame
    with pytest.raises(MalformedMessage):
        wire.decode(frames)


@pytest.mark.parametrize("service", ["", "two\nlines", "x" * 256])
def test_a_service_that_no_record_could_list_is_malformed(service: str) -> None:
    frames = wire.encode("west", "s1", wire.Offers([wire.Offer(service, 1, ["west"])]))
    with pytest.raises(MalformedMessage):
        wire.decode(frames)


@given(some.lists(some.binary(max_size=40), max_size=8))
def test_noise_is_malformed_and_nothing_worse(frames: list[bytes]) -> None:
    wire.sender_of(frames)
    with pytest.raises(MalformedMessage):
        wire.decode(frames)
    with pytest.raises(MalformedMessage):
        wire.decode([wire.MAGIC, *frames])
