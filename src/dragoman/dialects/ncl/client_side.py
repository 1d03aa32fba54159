"""NCL has no client role: work is given to an orchestrator in another way, here in any dialect."""

from typing import Any, Final, NoReturn

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import ClientNotice, Submission, Unsupported
from dragoman.model.names import JobId

_WORDS: Final = "NCL has no client role; connect with nfp, dcp, zss, memo or http instead"


def _refuse() -> NoReturn:
    raise Unsupported(_WORDS)


class NclClientSide:
    """A client's end that does not exist, and says so."""

    def hello(self) -> list[Frames]:
        """Refuse."""
        _refuse()

    def submit(self, order: Submission) -> list[Frames]:
        """Refuse."""
        _refuse()

    def ask(self, job: JobId) -> list[Frames]:
        """Refuse."""
        _refuse()

    def cancel(self, job: JobId) -> list[Frames]:
        """Refuse."""
        _refuse()

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Refuse."""
        _refuse()

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse."""
        _refuse()

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Refuse."""
        _refuse()
