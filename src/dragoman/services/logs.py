"""The last log records of the broker's process, kept for people who ask over the wire."""

from collections import deque
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

#: Records kept; older ones are in the log itself.
KEPT: Final = 10_000
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class LogBuffer:
    """Sits before the renderer of the log and remembers what passes."""

    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[dict[str, Any]] = deque(maxlen=kept)

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Remember one record, and pass it on."""
        level = str(event.get("level", method))
        told = {key: _plain(said) for key, said in event.items() if not key.startswith("_")}
        told["message"] = told.pop("event", "")
        self._records.append({"role": "broker", **told, "level": level.upper()})
        return event

    def attach(self) -> None:
        """Listen to everything this process logs, before it is rendered."""
        processors = structlog.get_config()["processors"]
        if not any(each is self for each in processors):
            structlog.configure(processors=[*processors[:-1], self, processors[-1]])

    def detach(self) -> None:
        """Stop listening."""
        processors = [p for p in structlog.get_config()["processors"] if p is not self]
        structlog.configure(processors=processors)

    def read(
        self, last: int = 100, level: str = "", logger: str = "", since: str = "", until: str = ""
    ) -> list[dict[str, Any]]:
        """Return the last records, the oldest first; `since` and `until` are ISO instants."""
        least = _LEVELS.get((level or "debug").lower(), 0)
        found = [
            record
            for record in self._records
            if _LEVELS.get(record["level"].lower(), 20) >= least
            and (not logger or logger in str(record.get("logger", "dragoman")))
            and (not since or str(record.get("timestamp", "")) >= since)
            and (not until or str(record.get("timestamp", "")) <= until)
        ]
        return found[-max(last, 0) :] if last else []


def _plain(said: Any) -> Any:
    return said if isinstance(said, str | int | float | bool | type(None)) else str(said)
