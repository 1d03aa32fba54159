"""Job ids that hold the fingerprint of their request, so that a restart loses none.

Peers do not notice a restart: NNG resends open requests with the same request ID, and workers send
results of jobs from the old process. A job's id holds the fingerprint of its request. So both are
recognised, and no job runs twice because of a restart.
"""

from collections.abc import Callable

from dragoman.dialects.memo01.requests import RequestKey
from dragoman.model.body import Body
from dragoman.model.names import JobId

#: Reads the body of the record at a ledger position.
LoadBody = Callable[[int], Body | None]


def job_id_for(key: RequestKey, unique: str) -> JobId:
    """Return a job id that holds the fingerprint of its request."""
    return JobId(f"{key[0].hex()}-{key[1].hex()}-{unique}")


def key_of_job(job: str) -> RequestKey | None:
    """Return the fingerprint of the request in a job id; None if there is none."""
    id_, _, rest = job.partition("-")
    try:
        return bytes.fromhex(id_), bytes.fromhex(rest.partition("-")[0])
    except ValueError:
        return None
