"""Ids of calls, so that a repeated Spark task does not repeat its calls.

The id depends on the run, the service, the task and the row's key only: not on the partition, the
executor or the attempt. It is both the job's id and its idempotency key.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

#: Half of a SHA-256: as long as random job ids.
_DIGITS: Final = 32
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def row_id(run: str, service: str, task: str, key: object) -> str:
    """Return the id of one call. Equal keys have equal ids; the order of map keys is ignored."""
    return _digest([run, service, task, key])


def chunk_id(ids: Sequence[str]) -> str:
    """Return the id of a call for several rows."""
    return _digest(list(ids))


def next_id(call_id: str, attempt: int) -> str:
    """Return the id for repeating a call that definitely did not run.

    A repeated Spark task computes the same ids: it gets the first failure again under the first id,
    and the answer under the second.
    """
    return _digest([call_id, attempt])


def _digest(parts: object) -> str:
    return hashlib.sha256(_ENCODER.encode(parts)).hexdigest()[:_DIGITS]
