"""Administrative operations on a running broker: restart, shutdown, disconnect."""

import contextlib
from collections.abc import Awaitable, Callable

from dragoman.core.events import DrainRequested, Noted
from dragoman.dialects.base import Send
from dragoman.model.names import ServiceName
from dragoman.model.record import Kind
from dragoman.server.broker_view import NodeSide
from dragoman.server.loop import Loop


class BrokerControl:
    """Implements the commands of the management service.

    `go_down` drains for at most so many seconds (None: as the settings say), then stops or
    restarts. `seal` exports every record and returns the number of the last one.
    """

    def __init__(
        self,
        loop: Loop,
        go_down: Callable[[float | None, bool], None],
        seal: Callable[[], Awaitable[int]],
    ) -> None:
        self._loop = loop
        self._go_down = go_down
        self.seal = seal

    def restart(self, at_most: float | None) -> None:
        """Drain, then start again in this process."""
        self._go_down(at_most, True)

    def shutdown(self, at_most: float | None) -> None:
        """Drain and stop."""
        self._go_down(at_most, False)

    def disconnect(self, worker: str | None, at_once: bool) -> list[str]:
        """Disconnect one worker, or all that are not built in."""
        registry = self._loop.broker.state.registry
        found = [
            w for w in registry.workers.values() if not w.is_builtin and worker in (None, w.name)
        ]
        for each in found:
            self._loop.submit(DrainRequested(each.peer, at_once))
        return sorted(w.name for w in found)

    def set_node(self, node: str, membership: str) -> bool:
        """Approve or reject a compute node and record it; tell whether the node exists."""
        loop, is_known = self._loop, False
        for link in loop.links.by_name.values():
            if not isinstance(link.side, NodeSide):
                continue
            with contextlib.suppress(KeyError):
                for item in link.side.set_membership(node, membership, loop.clock.now()):
                    if isinstance(item, Send):
                        link.send(item)
                    else:
                        loop.submit(item)
                loop.links.touch(link)
                is_known = True
        return is_known

    def forget_answers(self, service: str) -> None:
        """Drop the memoised answers of a service, and record it."""
        self._loop.submit(Noted(Kind.FORGOTTEN, service=ServiceName(service)))
