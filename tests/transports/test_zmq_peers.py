"""Keys of a ZeroMQ peer."""

from dragoman.transports.zmq_peers import CurveKeys


def test_the_secret_key_is_not_shown() -> None:
    shown = repr(CurveKeys(b"public", b"canary", b"server"))
    assert "public" in shown
    assert "canary" not in shown
