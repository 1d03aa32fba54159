"""Answers to ZAP: told with the very frames that libzmq sends."""

import asyncio
from collections import Counter

import zmq
from zmq.utils import z85

from dragoman.transports.zap import Zap

KEY = bytes(range(32))
NAME = f"curve:{z85.encode(KEY).decode()}"


def ask(mechanism: bytes = b"CURVE", credentials: bytes = KEY) -> list[bytes]:
    return [b"", b"1.0", b"7", b"dragoman", b"127.0.0.1", b"", mechanism, credentials]


async def answer(
    question: list[bytes],
    admitted: set[str],
    trouble: "Counter[str]",
    here: frozenset[str] = frozenset(),
) -> list[bytes]:
    """Ask what libzmq asks, and return what it would be told."""
    context = zmq.Context()
    zap = Zap(admitted.__contains__, trouble, here.__contains__)
    zap.open(context)
    with context.socket(zmq.DEALER) as asking:
        asking.connect("inproc://zeromq.zap.01")
        asking.send_multipart(question)
        assert await asyncio.to_thread(asking.poll, 5000)
        found = asking.recv_multipart()
    zap.close()
    context.term()
    return found


def test_an_admitted_key_is_told_yes_with_itself_as_the_user() -> None:
    trouble: Counter[str] = Counter()
    found = asyncio.run(answer(ask(), {NAME}, trouble))
    assert found == [b"", b"1.0", b"7", b"200", b"OK", z85.encode(KEY), b""]
    assert trouble == {}


def test_any_other_key_is_told_no_for_good() -> None:
    trouble: Counter[str] = Counter()
    found = asyncio.run(answer(ask(), set(), trouble))
    assert found == [b"", b"1.0", b"7", b"400", b"key refused", b"", b""]
    assert trouble == {"key refused": 1}


def test_a_mechanism_without_keys_is_refused() -> None:
    trouble: Counter[str] = Counter()
    found = asyncio.run(answer([*ask(b"PLAIN"), b"password"], {NAME}, trouble))
    assert found[3] == b"400"
    assert trouble == {"no key": 1}


def test_a_key_that_has_a_connection_waits_a_moment_for_the_old_one_to_end() -> None:
    async def timed() -> float:
        begun = asyncio.get_running_loop().time()
        assert (await answer(ask(), {NAME}, Counter(), frozenset({NAME})))[3] == b"200"
        return asyncio.get_running_loop().time() - begun

    assert asyncio.run(timed()) >= 0.04
