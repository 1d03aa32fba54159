"""Peers that are not ours, made alike for the matrix: NorFab's, ZSS's on Node, memo01's on pynng.

Every caller has the same few verbs, and says what became of a call in one way (`Told`). What a peer
has no way to do is not here: the table of the matrix says so instead.
"""

import json
import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pynng
from tests.interop.harness import Fleet, Process
from tests.interop.matrix_stage import CREW
from tests.interop.norfab_peers import RealClient, start_worker
from tests.interop.pynng_peers import PynngClient
from tests.interop.zss_peers import ENV, NODE

SILENCE: Final = "silence"
TIMED_OUT: Final = "timed out"


class Told(NamedTuple):
    """What became of a call, as its caller heard it: a value, or the words of a fault."""

    value: Any = None
    fault: str = ""


class Listening(Protocol):
    """A broker, or a node of a cluster."""

    @property
    def endpoints(self) -> Mapping[str, str]:
        """What it listens at, by link."""
        ...


class Caller(Protocol):
    """A client that is not ours."""

    def call(self, service: str, task: str, *args: Any, timeout: float = 30.0) -> Told:
        """Make one call."""
        ...

    def burst(self, service: str, task: str, values: Sequence[Any]) -> list[Told]:
        """Make a call for every value, all at once; answers in the order of the values."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class NorfabCaller:
    """NorFab's own client. Its time-outs are whole seconds, its bytes what JSON has for them."""

    def __init__(self, fleet: Fleet, broker: Listening) -> None:
        self._client = RealClient(fleet, broker.endpoints["nfp"], "mx-norfab-client")

    def call(self, service: str, task: str, *args: Any, timeout: float = 30.0) -> Told:
        return self._told(service, task, [args], timeout)[0]

    def burst(self, service: str, task: str, values: Sequence[Any]) -> list[Told]:
        return self._told(service, task, [(value,) for value in values], 50)

    def _told(self, service: str, task: str, calls: Sequence[Any], timeout: float) -> list[Told]:
        plain = [_plain(list(args)) for args in calls]
        found = self._client.ask(
            "many", 200.0, service=service, task=task, calls=plain, timeout=max(1, int(timeout))
        )
        return [_of_norfab(*one) for one in found]

    def close(self) -> None:
        """Its process ends with the fleet."""


def _of_norfab(result: dict[str, Any] | None, state: dict[str, Any]) -> Told:
    words = " ".join(map(str, state["errors"]))
    # STALE is its own clock's word; the broker's 408 may come first.
    if state["status"] == "STALE" or "not finished within" in words:
        return Told(fault=TIMED_OUT)
    if result is None:
        return Told(fault=words)
    (said,) = result.values()
    return Told(fault=" ".join(said["errors"])) if said["failed"] else Told(_revive(said["result"]))


class NodeCaller:
    """ZSS's published client, in one Node process for all calls."""

    def __init__(self, broker: Listening) -> None:
        self._process = subprocess.Popen(
            ["node", "matrix-client.js", broker.endpoints["zss"]],
            cwd=NODE,
            env={**os.environ, **ENV},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, service: str, task: str, *args: Any, timeout: float = 30.0) -> Told:
        return self._told([(service, task, _payload(args), timeout * 1000)])[0]

    def burst(self, service: str, task: str, values: Sequence[Any]) -> list[Told]:
        return self._told([(service, task, _payload((value,)), 50_000) for value in values])

    def begin_kept(self, service: str, task: str, *args: Any) -> str:
        """Ask TITANIC, which keeps requests, for a call; return the name of the job."""
        told = self.call(f"titanic/{service}", task, *args)
        assert told.value, told.fault
        return str(told.value["job"])

    def _told(self, calls: Sequence[tuple[str, str, Any, float]]) -> list[Told]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(_plain(list(map(list, calls)))) + "\n")
        self._process.stdin.flush()
        return [_of_node(one) for one in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _payload(args: Sequence[Any]) -> Any:
    """Write arguments as the one value that a ZSS request has."""
    if not args:
        return None
    return args[0] if len(args) == 1 else {"args": list(args), "kwargs": {}}


def _of_node(said: dict[str, Any]) -> Told:
    if "error" not in said:
        return Told(_revive(said.get("ok")))
    # The client's own code for an answer that did not come in time.
    if said["error"]["code"] == 599:
        return Told(fault=TIMED_OUT)
    return Told(fault=f"{said['error']['code']} {said['error']['developerMessage']}")


class PynngCaller:
    """A memo01 client on NNG's own library."""

    def __init__(self, broker: Listening) -> None:
        self._client = PynngClient(broker.endpoints["memo"])

    def call(self, service: str, task: str, *args: Any, timeout: float = 30.0) -> Told:
        return self._end(self._client.begin(service, task, list(args), timeout))

    def burst(self, service: str, task: str, values: Sequence[Any]) -> list[Told]:
        begun = [self._client.begin(service, task, [value], 50.0) for value in values]
        return [self._end(context) for context in begun]

    def _end(self, context: pynng.Context) -> Told:
        try:
            return Told(self._client.end(context))
        except pynng.Timeout:
            return Told(fault=SILENCE)

    def close(self) -> None:
        self._client.close()


# --- workers ------------------------------------------------------------------------------------


def _norfab_worker(fleet: Fleet, broker: Listening, service: str) -> Process:
    name = f"{service}-{len(fleet.processes)}"
    return start_worker(fleet, broker.endpoints["nfp"], name, service)


def _node_service(fleet: Fleet, broker: Listening, service: str) -> Process:
    command = ("node", "matrix-service.js", broker.endpoints["zss_backend"], service)
    return fleet.run(*command, name=service, env=ENV, cwd=NODE)


def _pynng_worker(fleet: Fleet, broker: Listening, service: str) -> Process:
    crew = str(CREW["pynng"])
    return fleet.python("-m", "tests.interop.pynng_peers", broker.endpoints["memo"], service, crew)


#: How a worker that is not ours is started, by its column of the table.
START: Final[dict[str, Callable[[Fleet, Listening, str], Process]]] = {
    "norfab": _norfab_worker,
    "zss-npm": _node_service,
    "pynng": _pynng_worker,
}


# --- bytes in JSON ------------------------------------------------------------------------------


def _plain(said: Any) -> Any:
    if isinstance(said, bytes):
        return {"$bytes": b64encode(said).decode()}
    if isinstance(said, dict):
        return {key: _plain(value) for key, value in said.items()}
    return [_plain(value) for value in said] if isinstance(said, list) else said


def _revive(said: Any) -> Any:
    if isinstance(said, dict):
        if said.keys() == {"$bytes"}:
            return b64decode(said["$bytes"])
        return {key: _revive(value) for key, value in said.items()}
    return [_revive(value) for value in said] if isinstance(said, list) else said
