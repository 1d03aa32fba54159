"""Which listeners may be plain, and what the others prove."""

from pathlib import Path

import pytest
import zmq
import zmq.auth

from dragoman.server.credentials import ListenerCredentials, check_listeners, is_local, read_secret
from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_sources import load
from dragoman.server.wiring import make_links
from dragoman.transports.memory import MemoryHub
from dragoman.transports.zmtp import Router

OFF = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http"), "off")


def settings(listen: dict[str, str], **credentials: object) -> BrokerSettings:
    return load(None, listen={**OFF, **listen}, credentials=credentials)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "broker.key"
    path.write_text(zmq.curve_keypair()[1].decode() + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://localhost:1", True),
        ("ipc:///tmp/x", True),
        ("", True),
        ("nats://elsewhere:4222", True),
        ("tcp://0.0.0.0:1", False),
        ("tcp://*:1", False),
        ("tcp://[::]:1", False),
        ("http://broker.example:1", False),
        ("tcp://127.0.0.1:1,tcp://10.0.0.1:1", False),
    ],
)
def test_an_endpoint_is_local_if_only_this_machine_can_reach_it(endpoint: str, found: bool) -> None:
    assert is_local(endpoint) is found


@pytest.mark.parametrize("name", ["nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http"])
def test_an_exposed_plain_listener_is_refused_with_what_to_do(name: str) -> None:
    said = settings({name: "tcp://0.0.0.0:1"})
    with pytest.raises(ValueError, match=f"{name} would listen .* 127.0.0.1, or .* --insecure"):
        check_listeners(said, ListenerCredentials(said))


def test_every_intended_plain_listener_gives_a_warning() -> None:
    said = settings({"nfp": "tcp://0.0.0.0:1", "http": "http://[::]:2"}, insecure=True)
    words = check_listeners(said, ListenerCredentials(said))
    assert len(words) == 2
    assert "nfp listens on tcp://0.0.0.0:1 without security" in words[0]


def test_a_plain_listener_on_the_loopback_is_allowed() -> None:
    said = load(None)
    assert check_listeners(said, ListenerCredentials(said)) == []


def test_a_listener_with_a_key_may_be_anywhere(secret: Path) -> None:
    said = settings({"nfp": "tcp://0.0.0.0:1"}, curve=[secret])
    assert check_listeners(said, ListenerCredentials(said)) == []
    transport = make_links(said, MemoryHub())[1].transport
    assert isinstance(transport, Router)
    assert transport.is_secured


def test_a_listener_stays_plain_if_the_settings_say_so(secret: Path) -> None:
    said = settings({"zss": "tcp://127.0.0.1:1"}, curve=[secret], plain=["zss"])
    transport = make_links(said, MemoryHub())[1].transport
    assert isinstance(transport, Router)
    assert not transport.is_secured
    exposed = settings({"zss": "tcp://0.0.0.0:1"}, curve=[secret], plain=["zss"])
    with pytest.raises(ValueError, match="zss would listen"):
        make_links(exposed, MemoryHub())


def test_secrets_are_read_from_every_form_of_file(tmp_path: Path, secret: Path) -> None:
    assert len(read_secret(secret)) == 40
    pyzmq = Path(zmq.auth.create_certificates(str(tmp_path), "broker")[1])
    pyzmq.chmod(0o600)
    assert read_secret(pyzmq) == zmq.auth.load_certificate(pyzmq)[1]
    ours = tmp_path / "ours.toml"
    ours.write_text(f"[curve]\npublic = '{'p' * 40}'\nsecret = '{'s' * 40}'\n")
    ours.chmod(0o600)
    assert read_secret(ours) == b"s" * 40


def test_a_secret_that_others_can_read_is_not_used(secret: Path) -> None:
    secret.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        read_secret(secret)


@pytest.mark.parametrize("text", ["", "short", "x" * 41])
def test_a_file_without_a_secret_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=r"broker\.key has no CURVE secret key") as caught:
        read_secret(path)
    assert "xxxx" not in str(caught.value)


def test_a_certificate_without_its_key_is_no_credential(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be set together"):
        settings({}, certificate=tmp_path / "a.pem")
