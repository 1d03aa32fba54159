"""A broker whose certificate has other names says so, in every dialect with TLS."""

import ssl
import subprocess
from pathlib import Path

import pytest
from tests.interop.harness import DRAGOMAN
from tests.interop.secured import SecuredSite

from dragoman import Client, DragomanError, Worker
from dragoman.transports.certificate_names import explain, names_at
from dragoman.transports.tls import PeerTls

NAMES = ("broker.example", "192.0.2.7")
TOLD = "is for broker.example, 192.0.2.7, not for 127.0.0.1; use one of these names in the URL"


def secure(url: str) -> str:
    return url.replace("http://", "https://")


@pytest.mark.process
@pytest.mark.parametrize(("dialect", "link"), [("http", "http"), ("memo", "memo"), ("ncl", "nats")])
def test_clients_and_workers_are_told_the_names_of_the_certificate(
    tmp_path: Path, dialect: str, link: str
) -> None:
    site = SecuredSite(tmp_path / "site", NAMES)
    path = site.peer("anna")[0]
    with site.broker(link) as broker:
        url = secure(broker.url(dialect, for_workers=True))
        worker = Worker(url, "sum", own_process_beats=False, credentials=path)
        with pytest.raises(DragomanError, match=TOLD):
            worker.start()
        worker.stop()
        if dialect != "ncl":
            with Client(url, credentials=path) as client, pytest.raises(DragomanError, match=TOLD):
                client.options(timeout=20).call("sum", "add")
            command = [DRAGOMAN, "--key", str(path), "ping", "--url", url]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert said.returncode != 0
            assert TOLD in " ".join(said.stderr.split())


def test_another_fault_of_a_certificate_is_told_as_openssl_says_it() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 10, "certificate has expired"
    told = explain(error, PeerTls(), "127.0.0.1", 1)
    assert told.endswith("its certificate is refused here: certificate has expired")


def test_a_server_that_is_gone_has_no_names_and_the_sentence_still_reads() -> None:
    assert names_at(PeerTls(), "127.0.0.1", 1) == []
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = 64
    told = explain(error, PeerTls(), "127.0.0.1", 1)
    assert told.startswith("the certificate of 127.0.0.1:1 is for other names, not for 127.0.0.1")
