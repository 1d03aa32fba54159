"""What time does to nodes: silence, the end of a grace, work nobody claims, oblivion.

Nobody is heard here: the side asks for a node to be looked at (`watch`), and `advance` looks.
"""

from dragoman.dialects.ncl.control import ControlPlane
from dragoman.dialects.ncl.dispatcher import Dispatcher, Told
from dragoman.dialects.ncl.executions import Executions
from dragoman.dialects.ncl.nodes import Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.times import WakeTimes


class NodeTimers:
    """Looks at each node in time."""

    def __init__(
        self,
        settings: OrchestratorSettings,
        control: ControlPlane,
        executions: Executions,
        dispatcher: Dispatcher,
    ) -> None:
        self._settings = settings
        self._control = control
        self._executions = executions
        self._dispatcher = dispatcher
        self._alarms = WakeTimes()

    def advance(self, now: float) -> Told:
        """Look at the nodes whose time has come."""
        told: Told = []
        for name in self._alarms.due(now):
            node = self._control.nodes.get(str(name))
            if node is not None:
                told += self._look(node, now)
        return told

    def _look(self, node: Node, now: float) -> Told:
        told: Told = [*self._control.check(node, now)]
        node.publisher.advance(now)
        told += self._tidy(node, now)
        if self._is_over(node) and now >= self._forgotten_at(node):
            return told + self._control.forget(node)
        return told + self.serve(node, now)

    def _is_over(self, node: Node) -> bool:
        return node.is_lost and self._control.may_forget(node)

    def _forgotten_at(self, node: Node) -> float:
        return node.disconnected_at + self._settings.forget_after

    def next_deadline(self) -> float | None:
        """When `advance` wants to be called next."""
        return self._alarms.next()

    def serve(self, node: Node, now: float) -> Told:
        """Send a node what may go out to it now, and see to it that it is looked at in time."""
        told = self._dispatcher.leave(node, now)
        self.watch(node)
        return told

    def _tidy(self, node: Node, now: float) -> Told:
        """Stop what nobody claims any more, and put progress on record."""
        if node.is_connected and not node.is_reconciled:
            if now >= node.connected_at + self._settings.reconcile_after:
                self._reconcile(node)
        elif not (node.is_connected or node.is_lost) and now >= self._given_up_at(node):
            node.is_lost = True
            for execution in self._executions.on(node.id):
                self._dispatcher.stop(node, execution)
        if node.is_dirty and now >= node.recorded_at + self._settings.checkpoint_interval:
            return [node.noted(now)]
        return []

    def _reconcile(self, node: Node) -> None:
        """Stop what a returned node still runs and the core has not claimed."""
        node.is_reconciled = True
        for execution in self._executions.on(node.id):
            if execution.polled_in != node.session:
                self._dispatcher.stop(node, execution)

    def _given_up_at(self, node: Node) -> float:
        """When the core has surely given a silent node's work to others."""
        return node.disconnected_at + self._settings.grace + self._settings.reconcile_after

    def watch(self, node: Node) -> None:
        """See to it that a node is looked at when something of it is due."""
        settings = self._settings
        self._alarms.set(node.id, node.publisher.next_deadline())
        if node.is_connected:
            self._alarms.set(node.id, node.heard_at + settings.disconnect_timeout)
            if not node.is_reconciled:
                self._alarms.set(node.id, node.connected_at + settings.reconcile_after)
        elif not node.is_lost:
            self._alarms.set(node.id, self._given_up_at(node))
        elif self._is_over(node):
            self._alarms.set(node.id, self._forgotten_at(node))
        if node.is_dirty:
            self._alarms.set(node.id, node.recorded_at + settings.checkpoint_interval)
