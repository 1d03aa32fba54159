"""NATS service discovery: a worker answers `$SRV.PING`, `INFO` and `STATS` for its services.

NATS tools then list Dragoman's workers. Names and fields follow the NATS micro services convention,
version 1.
"""

import re
from typing import Final

from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.times import time_text
from dragoman.dialects.ncl.wire import IN_MSGS, compute_subject

PREFIX: Final = "$SRV"
_VERBS: Final = ("PING", "INFO", "STATS")
_SCHEMA: Final = "io.nats.micro.v1"
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")


class Discovery:
    """The discovery answers of one worker."""

    def __init__(
        self, node: str, services: tuple[str, ...], version: str, started_at: float
    ) -> None:
        self._node = node
        self._version = version
        self._started = time_text(started_at)
        #: Service name in the convention's alphabet -> service name.
        self._services = {_ODD.sub("_", name): name for name in services}

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The subjects this worker answers on."""
        subjects = []
        for verb in _VERBS:
            subjects.append(f"{PREFIX}.{verb}")
            for name in self._services:
                subjects += [f"{PREFIX}.{verb}.{name}", f"{PREFIX}.{verb}.{name}.{self._node}"]
        return tuple(subjects)

    def answers(self, subject: str, runs: int, failures: int) -> list[bytes]:
        """Return one answer for each service that the request asks about."""
        _, verb, *rest = [*subject.split("."), ""][:4]
        wanted = rest[0] if rest else ""
        names = [n for n in self._services if wanted in ("", n)]
        return [dump(self._answer(verb, name, runs, failures)) for name in names]

    def _answer(self, verb: str, name: str, runs: int, failures: int) -> dict[str, object]:
        answer: dict[str, object] = {
            "type": f"{_SCHEMA}.{verb.lower()}_response",
            "name": name,
            "id": self._node,
            "version": self._version,
            "metadata": {"dialect": "ncl", "service": self._services[name]},
        }
        if verb == "PING":
            return answer
        endpoint: dict[str, object] = {
            "name": name,
            "subject": compute_subject(self._node, IN_MSGS),
            "queue_group": "",
        }
        if verb == "INFO":
            answer["description"] = f"Dragoman worker for {self._services[name]}"
        else:
            answer["started"] = self._started
            endpoint |= {"num_requests": runs, "num_errors": failures, "last_error": ""}
            endpoint |= {"processing_time": 0, "average_processing_time": 0}
        return {**answer, "endpoints": [endpoint]}
