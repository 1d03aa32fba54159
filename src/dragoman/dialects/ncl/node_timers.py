"""The timers of compute nodes: disconnect timeout, end of grace, reconciliation, forgetting.

`schedule` sets a node's wake-up time; `advance` checks the nodes that are due.
"""

from dragoman.dialects.ncl.control import ControlPlane
from dragoman.dialects.ncl.dispatcher import Dispatcher, Outputs
from dragoman.dialects.ncl.executions import Executions
from dragoman.dialects.ncl.nodes import Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.times import WakeTimes


class NodeTimers:
    """Checks each node when one of its timers is due."""

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
        self._wake_times = WakeTimes()

    def advance(self, now: float) -> Outputs:
        """Check the nodes that are due."""
        outputs: Outputs = []
        for name in self._wake_times.due(now):
            node = self._control.nodes.get(str(name))
            if node is not None:
                outputs += self._check(node, now)
        return outputs

    def _check(self, node: Node, now: float) -> Outputs:
        outputs: Outputs = [*self._control.check(node, now)]
        node.publisher.advance(now)
        outputs += self._reconcile_or_record(node, now)
        if self._may_forget(node) and now >= self._forget_at(node):
            return outputs + self._control.forget(node)
        return outputs + self.send_pending(node, now)

    def _may_forget(self, node: Node) -> bool:
        return node.is_lost and self._control.may_forget(node)

    def _forget_at(self, node: Node) -> float:
        return node.disconnected_at + self._settings.forget_after

    def next_deadline(self) -> float | None:
        """Return when `advance` is due next."""
        return self._wake_times.next()

    def send_pending(self, node: Node, now: float) -> Outputs:
        """Return the messages to send to a node now, and schedule its next check."""
        outputs = self._dispatcher.pending_sends(node, now)
        self.schedule(node)
        return outputs

    def _reconcile_or_record(self, node: Node, now: float) -> Outputs:
        """Stop executions that the core does not claim; record progress."""
        if node.is_connected and not node.is_reconciled:
            if now >= node.connected_at + self._settings.reconcile_after:
                self._reconcile(node)
        elif not (node.is_connected or node.is_lost) and now >= self._lost_at(node):
            node.is_lost = True
            for execution in self._executions.on(node.id):
                self._dispatcher.stop(node, execution)
        if node.is_dirty and now >= node.recorded_at + self._settings.checkpoint_interval:
            return [node.state_note(now)]
        return []

    def _reconcile(self, node: Node) -> None:
        """Stop the executions of a returned node that the core has not claimed."""
        node.is_reconciled = True
        for execution in self._executions.on(node.id):
            if execution.claimed_in != node.session:
                self._dispatcher.stop(node, execution)

    def _lost_at(self, node: Node) -> float:
        """Return when the core has given a silent node's work to others for certain."""
        return node.disconnected_at + self._settings.grace + self._settings.reconcile_after

    def schedule(self, node: Node) -> None:
        """Schedule the next check of a node for its earliest deadline."""
        settings = self._settings
        self._wake_times.set(node.id, node.publisher.next_deadline())
        if node.is_connected:
            self._wake_times.set(node.id, node.heard_at + settings.disconnect_after)
            if not node.is_reconciled:
                self._wake_times.set(node.id, node.connected_at + settings.reconcile_after)
        elif not node.is_lost:
            self._wake_times.set(node.id, self._lost_at(node))
        elif self._may_forget(node):
            self._wake_times.set(node.id, self._forget_at(node))
        if node.is_dirty:
            self._wake_times.set(node.id, node.recorded_at + settings.checkpoint_interval)
