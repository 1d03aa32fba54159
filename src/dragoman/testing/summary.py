"""Events and effects as one line, for the trace and the message diagram."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from dragoman.core import effects, events

_FIELDS: Final[dict[type, str]] = {
    events.JobSubmitted: "client job service target terms.priority key",
    events.JobCancelled: "client job",
    events.InputReceived: "client job worker",
    events.ResultRequested: "client job",
    events.WorkerJoined: "worker name services credit holds",
    events.CreditGranted: "worker credit",
    events.BeatReceived: "worker",
    events.ReplyReceived: "worker job attempt kind fault",
    events.JobForwarded: "worker job attempt service target",
    events.DeliveryFailed: "peer job attempt is_gone fault",
    events.PeerLeft: "peer grace",
    events.DrainRequested: "peer",
    events.LedgerBlocked: "reason",
    events.ResourcesDeclared: "service",
    events.ResourcesSettled: "worker",
    events.ScheduleDeclared: "name",
    events.ScheduleTicked: "name tick",
    events.DeadLetterDropped: "job",
    events.ResultForgotten: "job principal",
    events.ServicePaused: "service is_paused",
    events.WorkerDrained: "worker is_drained",
    events.ServiceLimited: "service task limit",
    events.Noted: "kind peer detail",
    events.EventDenied: "principal fault",
    events.TimeAdvanced: "",
    effects.SendWork: "worker job attempt service run_until seq",
    effects.SendInput: "worker job",
    effects.SendCancel: "worker job attempt",
    effects.SendPoll: "worker job attempt",
    effects.SendReply: "client job kind state fault workers",
    effects.SendStatus: "client job asked fault",
    effects.SendBeat: "worker",
    effects.Dismiss: "peer reason",
}
_RECORD: Final = attrgetter("seq", "kind", "job", "part", "attempt", "worker", "state", "fault")


def _getter(names: str) -> Callable[[object], object]:
    return attrgetter(*names.split()) if names else lambda thing: ""


_GETTERS: Final = {kind: _getter(names) for kind, names in _FIELDS.items()}


def summary(thing: Any) -> str:
    """Return an event or effect as one line."""
    kind = type(thing)
    if kind is effects.Append:
        return "#{} {} {}/{} attempt {} {} {} {}".format(*_RECORD(thing.record)).rstrip()
    getter = _GETTERS.get(kind)
    return f"{kind.__name__}{_plain(getter(thing))}" if getter else repr(thing)


def _plain(found: object) -> str:
    if not isinstance(found, tuple):
        return f" {found}"
    words = []
    for each in found:
        if isinstance(each, frozenset):
            words.append("{" + " ".join(sorted(each)) + "}")
        elif each is not None and each != "":
            words.append(getattr(each, "code", None) or str(each))
    return " " + " ".join(words)
