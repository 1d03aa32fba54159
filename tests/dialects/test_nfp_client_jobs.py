"""What clients were told, and the form and name of a result."""

import json

from dragoman.dialects.nfp.body_codec import NfpBodyCodec
from dragoman.dialects.nfp.client_jobs import ClientJobs, name_for, renamed, result_content
from dragoman.dialects.nfp.peers import Peer
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId

C1, J1 = PeerId("nfp/c1"), JobId("j1")
CODECS = {"nfp": NfpBodyCodec()}
NORFAB, TEXT = Peer(b"c1", C1), Peer(b"c1", C1)
TEXT.is_binary = True


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
    assert renamed((b'{"w2":1}', b"x"), "w2", "w1") == (b'{"w1":1}', b"x")
    assert renamed((b'{ "w2":1}',), "w2", "w2") == (b'{ "w2":1}',)


def test_a_result_of_nfp_is_not_touched() -> None:
    raw = b'{ "w1" : {"result":1} }'
    body = Body("nfp", (raw,))
    assert result_content(CODECS, NORFAB, "w1", body, None, "j1", "math") == (b"200", (raw,))


def test_a_failing_status_is_passed_on_with_all_content_frames() -> None:
    body, fault = Body("nfp", (b"a", b"b", b"408")), Fault(FaultCode.TASK_FAILED)
    for peer in (NORFAB, TEXT):
        status, content = result_content(CODECS, peer, "w1", body, fault, "j1", "math")
        assert (status, content) == (b"408", (b"a", b"b"))


def test_a_failure_in_the_body_is_a_200_for_norfab_and_a_500_for_the_text() -> None:
    body, fault = Body("nfp", (b'{"w1":{"failed":true}}',)), Fault(FaultCode.TASK_FAILED, "no")
    for peer, status in ((NORFAB, b"200"), (TEXT, b"500")):
        assert result_content(CODECS, peer, "w1", body, fault, "j1", "s") == (status, body.parts)


def test_an_empty_result_has_norfabs_form_for_norfab_only() -> None:
    body = Body("nfp", (b"",))
    assert result_content(CODECS, TEXT, "w1", body, None, "j1", "s") == (b"200", (b"",))
    status, (said,) = result_content(CODECS, NORFAB, "w1", body, None, "j1", "s")
    assert (status, json.loads(said)["w1"]["result"]) == (b"200", None)


def test_each_post_of_a_synchronous_client_has_one_reply() -> None:
    client_jobs = ClientJobs(NfpSettings())
    client_jobs.add_post(C1, J1)
    client_jobs.add_post(C1, J1)
    assert [client_jobs.take_post(C1, J1) for _ in range(3)] == [True, True, False]
    assert not client_jobs.posts


def test_a_result_of_an_unknown_dialect_is_a_failure() -> None:
    args = ("w1", Body("x", (b"1",)), None, "j1", "math")
    status, (result,) = result_content(CODECS, NORFAB, *args)
    said = json.loads(result)["w1"]
    assert (status, said["failed"]) == (b"200", True)
    assert result_content(CODECS, TEXT, *args)[0] == b"417"
    assert (said["juuid"], said["service"]) == ("j1", "math")


def test_a_missing_result_has_its_fault() -> None:
    fault = Fault(FaultCode.WORKER_LOST, "gone")
    _, (result,) = result_content(CODECS, NORFAB, "w1", None, fault, "j1", "s")
    assert json.loads(result)["w1"]["errors"] == ["gone"]
