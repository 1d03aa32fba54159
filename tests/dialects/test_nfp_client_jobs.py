"""What clients were told, and the form and name of a result."""

import json

from dragoman.dialects.nfp.body_codec import NfpBodyCodec
from dragoman.dialects.nfp.client_jobs import ClientJobs, name_for, renamed, result_body
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId

C1, J1 = PeerId("nfp/c1"), JobId("j1")
CODECS = {"nfp": NfpBodyCodec()}


def test_gets_are_answered_in_order_and_forgotten() -> None:
    client_jobs = ClientJobs(NfpSettings())
    client_jobs.add_get(C1, J1, "w1")
    client_jobs.add_get(C1, J1, "w2")
    assert [client_jobs.take_get(C1, J1) for _ in range(3)] == ["w1", "w2", "all"]
    assert not client_jobs.gets


def test_only_a_single_announced_name_can_stand_for_another() -> None:
    assert name_for("w2", ("w1",)) == "w1"
    assert name_for("w2", ("w1", "w2")) == "w2"
    assert name_for("w2", ()) == "w2"
    assert renamed(b'{"w2":1}', "w2", "w1") == b'{"w1":1}'
    assert renamed(b'{ "w2":1}', "w2", "w2") == b'{ "w2":1}'


def test_a_result_of_nfp_is_not_touched() -> None:
    raw = b'{ "w1" : {"result":1} }'
    assert result_body(CODECS, "w1", Body("nfp", (raw,)), None, "j1", "math") == raw


def test_a_result_of_an_unknown_dialect_is_a_failure() -> None:
    said = json.loads(result_body(CODECS, "w1", Body("x", (b"1",)), None, "j1", "math"))["w1"]
    assert said["failed"] is True
    assert (said["juuid"], said["service"]) == ("j1", "math")


def test_a_missing_result_has_its_fault() -> None:
    fault = Fault(FaultCode.WORKER_LOST, "gone")
    assert json.loads(result_body(CODECS, "w1", None, fault, "j1", "s"))["w1"]["errors"] == ["gone"]
