"""Job ids hold the fingerprint of their request."""

import pytest

from dragoman.dialects.memo01.request_recovery import job_id_for, key_of_job

KEY = (b"\x80\0\0\1", b"12345678")
JOB = job_id_for(KEY, "abc")


def test_a_jobs_name_carries_its_request() -> None:
    assert key_of_job(JOB) == KEY
    assert job_id_for(KEY, "abc") != job_id_for(KEY, "abd")


@pytest.mark.parametrize("job", ["", "j", "80000001", "xx-yy-zz"])
def test_the_names_of_other_jobs_carry_none_or_nothing_that_is_ever_asked_for(job: str) -> None:
    assert key_of_job(job) in (None, (bytes.fromhex("80000001"), b""), (b"", b""))
