"""What a row's call is known by, so that a Spark task that is run again does not run it again.

The id is a function of the run, the service, the task and the row's key, and of nothing else: not
of the partition, the executor or the attempt. It is both the job's id and its idempotency key.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

#: Half of a SHA-256, as long as the ids that clients make up.
_DIGITS: Final = 32
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def row_id(run: str, service: str, task: str, key: Any) -> str:
    """Return the id of one call. Equal keys have equal ids; maps are equal in any order."""
    return _digest([run, service, task, key])


def chunk_id(ids: Sequence[str]) -> str:
    """Return the id of a call that stands for several rows."""
    return _digest(list(ids))


def next_id(call_id: str, attempt: int) -> str:
    """Return the id under which a call is made anew after it surely did not run.

    A task that is run again takes the same way: it hears of the first failure again, and finds the
    answer under the second id.
    """
    return _digest([call_id, attempt])


def _digest(said: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(said)).hexdigest()[:_DIGITS]
