"""MMI and Titanic, as plain MDP clients use them."""

import pytest
from tests.dialects.fabric import Fabric
from tests.dialects.mdp_messages import C2, C, W, hear, make_fabric, register, say

from dragoman.dialects.local import wire as local
from dragoman.dialects.mdp.services import MANAGEMENT, is_reserved
from dragoman.dialects.mdp.wire import (
    V1,
    V2,
    ClientReply,
    ClientRequest,
    WorkerReply,
    WorkerRequest,
)
from dragoman.dialects.registry import body_codecs
from dragoman.model.body import Body
from dragoman.model.content import Answer

SERVICES = [{"name": "echo", "workers": 1}, {"name": "idle", "workers": 0}]


def answer(fabric: Fabric, client: bytes) -> tuple[bytes, ...]:
    (reply,) = hear(fabric, client, is_client=True)
    assert isinstance(reply, ClientReply)
    return reply.body


def request(fabric: Fabric, service: bytes, *body: bytes, client: bytes = C) -> None:
    say(fabric, client, ClientRequest(service, body))


def with_management() -> Fabric:
    """Join a built-in management service."""
    fabric = make_fabric()
    fabric.say("local", b"services", local.encode(local.LocalJoin((MANAGEMENT,), 4)))
    return fabric


def serve_management(fabric: Fabric) -> None:
    (frames,) = fabric.hear("local", b"services")
    work = local.decode(frames)
    assert isinstance(work, local.LocalWork)
    assert body_codecs()["local"].read_call(_body(work)).task == "list_services"
    rows = body_codecs()["local"].write_answer(Answer(SERVICES)).parts[0]
    reply = local.LocalReply(work.job, work.attempt, "final", rows)
    fabric.say("local", b"services", local.encode(reply))


def _body(work: local.LocalWork) -> Body:
    return Body("local", (work.body,))


@pytest.mark.parametrize(
    ("sought", "status"), [(b"echo", b"200"), (b"idle", b"404"), (b"never", b"404")]
)
@pytest.mark.parametrize("version", [V1, V2])
def test_mmi_service_tells_whether_a_service_has_a_worker(
    sought: bytes, status: bytes, version: int
) -> None:
    fabric = with_management()
    say(fabric, C, ClientRequest(b"mmi.service", (sought,), version))
    serve_management(fabric)
    reply = ClientReply(b"mmi.service", (status,), version=version)
    assert hear(fabric, C, is_client=True) == [reply]


def test_another_service_of_mmi_is_not_implemented() -> None:
    fabric = make_fabric()
    request(fabric, b"mmi.workers", b"echo")
    assert answer(fabric, C) == (b"501",)


def test_the_management_service_itself_can_be_called() -> None:
    fabric = with_management()
    request(fabric, MANAGEMENT.encode(), b"list_services", b"\x92\x90\x80")
    serve_management(fabric)
    assert b"idle" in answer(fabric, C)[0]


def stored(fabric: Fabric) -> bytes:
    request(fabric, b"titanic.request", b"echo", b"a", b"b")
    status, uuid = answer(fabric, C)
    assert status == b"200"
    assert len(uuid) == 32
    return uuid


def test_a_titanic_request_is_stored_worked_on_fetched_and_closed() -> None:
    fabric = make_fabric()
    uuid = stored(fabric)
    assert fabric.kinds()[0] == "submitted"
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C) == (b"300",)
    register_and_reply(fabric, (b"x", b"y"))
    for client in (C, C2, C):
        request(fabric, b"titanic.reply", uuid, client=client)
        assert answer(fabric, client) == (b"200", b"x", b"y")
    for _ in range(2):
        request(fabric, b"titanic.close", uuid)
        assert answer(fabric, C) == (b"200",)
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C) == (b"400",)


def register_and_reply(fabric: Fabric, body: tuple[bytes, ...]) -> None:
    fabric.say("mdp", W, [b"MDPW02", b"\x01", b"echo"])
    (work,) = hear(fabric, W)
    assert isinstance(work, WorkerRequest)
    assert work.body == (b"a", b"b")
    say(fabric, W, WorkerReply(work.client, body))


def test_a_titanic_request_outlives_the_wait_for_a_worker() -> None:
    fabric = make_fabric()
    uuid = stored(fabric)
    fabric.wait(3600.0)
    register_and_reply(fabric, (b"at last",))
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C) == (b"200", b"at last")


def test_closing_an_open_request_cancels_it() -> None:
    fabric = make_fabric()
    uuid = stored(fabric)
    request(fabric, b"titanic.close", uuid)
    assert answer(fabric, C) == (b"200",)
    register(fabric, W)
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C) == (b"400",)


@pytest.mark.parametrize("uuid", [b"", b"short", b"0" * 33, b"-" * 32, b"f" * 32])
def test_an_unknown_uuid_is_unknown_and_closed_already(uuid: bytes) -> None:
    fabric = make_fabric()
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C) == (b"400",)
    request(fabric, b"titanic.close", uuid)
    assert answer(fabric, C) == (b"200",)


@pytest.mark.parametrize(
    "body", [(b"echo",), (b"", b"x"), (b"titanic.request", b"x"), (b"mmi.service", b"x")]
)
def test_a_titanic_request_without_service_or_body_is_an_error(body: tuple[bytes, ...]) -> None:
    fabric = make_fabric()
    request(fabric, b"titanic.request", *body)
    assert answer(fabric, C)[0].startswith(b"500 ")


def test_a_failed_titanic_request_is_an_error() -> None:
    fabric = make_fabric()
    uuid = stored(fabric)
    fabric.wait(86_401.0)
    request(fabric, b"titanic.reply", uuid)
    assert answer(fabric, C)[0].startswith(b"500 ")


def test_names_that_no_worker_may_register() -> None:
    assert [is_reserved(name) for name in ("mmi.x", "titanic.reply", "all", "echo")] == [
        True,
        True,
        True,
        False,
    ]
