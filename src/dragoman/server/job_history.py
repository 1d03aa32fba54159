"""What the management service adds to `why` from the ledger: the attempts of the job."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

import structlog

from dragoman.core.attempts import attempts
from dragoman.ledger.base import LedgerError
from dragoman.server.ledger_queries import LedgerQueries

log = structlog.get_logger("dragoman.server")

#: Attempts in one answer, the newest ones.
_MOST: Final = 100


class JobHistory:
    """Explains jobs with their history."""

    def __init__(self, why: Callable[[str], dict[str, Any]], queries: LedgerQueries) -> None:
        self._why = why
        self._queries = queries

    async def why(self, job: str) -> dict[str, Any]:
        """Return why a job is in its state, and its attempts so far."""
        return self._why(job) | {"attempts": await self._attempts(job)}

    async def _attempts(self, job: str) -> list[dict[str, object]]:
        try:
            records = await self._queries.history(job)
        except LedgerError as error:
            # There is always an answer; what is in memory is most of it.
            log.warning("the attempts of a job cannot be read", job=job, error=str(error))
            return []
        return [asdict(each) for each in attempts(records)[-_MOST:]]
