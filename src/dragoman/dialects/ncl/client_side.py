"""NCL has no client role. Clients submit NCL work through any other dialect."""

from typing import Final, NoReturn

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import ClientNotice, Submission, Unsupported
from dragoman.model.names import JobId

_MESSAGE: Final = "NCL has no client role; connect with nfp, dcp, zss, memo or http instead"


def _refuse() -> NoReturn:
    raise Unsupported(_MESSAGE)


class NclClientSide:
    """A client side whose methods all raise `Unsupported`."""

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

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Refuse."""
        _refuse()

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse."""
        _refuse()

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Refuse."""
        _refuse()
