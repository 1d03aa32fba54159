"""The last log records of the broker process, for the management task `get_logs`.

If the process has several namespaces, each keeps only its own: the records of the others are not
for its operators.
"""

from collections import deque
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from structlog.contextvars import get_contextvars

#: Records in memory; older ones are only in the log.
KEPT: Final = 10_000
#: The context variable that names the namespace whose code runs.
NAMESPACE: Final = "namespace"
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class LogBuffer:
    """A structlog processor before the renderer that keeps the last records."""

    def __init__(self, kept: int = KEPT, namespace: str = "") -> None:
        self._namespace = namespace
        self._records: deque[dict[str, Any]] = deque(maxlen=kept)

    def __call__(
        self, logger: object, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        """Keep one record of the own namespace, and pass every record on."""
        if get_contextvars().get(NAMESPACE, "") != self._namespace:
            return event
        level = str(event.get("level", method))
        kept = {key: _plain(item) for key, item in event.items() if not key.startswith("_")}
        kept["message"] = kept.pop("event", "")
        self._records.append({"role": "broker", **kept, "level": level.upper()})
        return event

    def attach(self) -> None:
        """Start to keep the records of this process."""
        processors = structlog.get_config()["processors"]
        if not any(each is self for each in processors):
            structlog.configure(processors=[*processors[:-1], self, processors[-1]])

    def detach(self) -> None:
        """Stop keeping records."""
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


def _plain(item: object) -> object:
    return item if isinstance(item, str | int | float | bool | type(None)) else str(item)
