"""Certificates of another authority, expired ones, and ones without the broker's name."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.attacks.attack_table import tried_in
from tests.security.attacks.attacked_site import troubles

from dragoman import Client
from dragoman.sdk.credentials import Credentials
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.issuing import Certificate, new_authority, new_certificate, new_credentials
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

ROOT, OTHER = new_authority("root"), new_authority("other")
HOSTS = ("localhost", "127.0.0.1")
MMI = "mmi.service.broker"


def serve(folder: Path, certificate: Certificate) -> LocalBroker:
    """Return a secured broker with a certificate, which trusts ROOT and knows alice."""
    files = {
        "broker-tls.pem": certificate.certificate,
        "broker-tls.key": certificate.secret,
        "authority.pem": ROOT.certificate,
    }
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
        (folder / name).chmod(0o600)
    settings = zip(("certificate", "key", "authority"), files, strict=True)
    return LocalBroker(
        *("memo", "http"),
        data=folder / "data",
        security={"enabled": True},
        credentials={setting: folder / name for setting, name in settings},
    )


def works(broker: LocalBroker, dialect: str, credentials: Credentials) -> bool:
    try:
        with Client(broker.url(dialect), "alice", credentials=credentials) as client:
            client.call(MMI, "show_workers", timeout=2)
    except (DragomanError, TimeoutError, OSError):
        return False
    return True


def alice(folder: Path, signer: Certificate = ROOT, days: int = 825) -> Credentials:
    """Return the credentials of a registered operator, without a token."""
    made, _ = new_credentials("alice")
    own = new_certificate(signer, "alice", days=days)
    registry = KeyRegistry.open(folder / "data" / "registry.json")
    registry.add(own.key, "alice", now=0.0, roles=("operator",))
    authority = ROOT.certificate
    return replace(made, certificate=own.certificate, key=own.secret, authority=authority)


@pytest.mark.parametrize("dialect", ["memo", "http"])
def test_a_good_certificate_on_both_sides_works(tmp_path: Path, dialect: str) -> None:
    credentials = alice(tmp_path)
    with serve(tmp_path, new_certificate(ROOT, "broker", HOSTS)) as broker:
        assert works(broker, dialect, credentials)


@pytest.mark.parametrize(("signer", "days"), [(OTHER, 825), (ROOT, 0)])
@pytest.mark.parametrize("dialect", tried_in("bad certificate"))
def test_a_clients_certificate_of_another_authority_or_an_expired_one_is_refused(
    tmp_path: Path, dialect: str, signer: Certificate, days: int
) -> None:
    credentials = alice(tmp_path, signer, days)
    with serve(tmp_path, new_certificate(ROOT, "broker", HOSTS)) as broker:
        assert not works(broker, dialect, credentials)
        assert troubles(broker, dialect) > 0


@pytest.mark.parametrize(
    "certificate",
    [
        new_certificate(OTHER, "broker", HOSTS),
        new_certificate(ROOT, "broker", HOSTS, days=0),
        new_certificate(ROOT, "broker", ("elsewhere.example",)),
        new_certificate(ROOT, "localhost"),
    ],
    ids=["another authority", "expired", "another host", "no name"],
)
@pytest.mark.parametrize("dialect", ["memo", "http"])
def test_a_broker_that_does_not_prove_its_name_gets_nothing(
    tmp_path: Path, dialect: str, certificate: Certificate
) -> None:
    credentials = alice(tmp_path)
    with serve(tmp_path, certificate) as broker:
        assert not works(broker, dialect, credentials)
        loop = broker.server.loop
        assert loop is not None
        assert not [r for r in loop.ledger.read() if r.kind == "submitted"]
