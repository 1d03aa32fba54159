import pytest

from dragoman.compat import celery, hints
from dragoman.compat.hints import DEFAULT_URL, NotInCompat, broker_url, refuse_unknown


def test_a_broker_of_another_kind_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_URL", raising=False)
    assert broker_url("zss://host:7777") == "zss://host:7777"
    assert broker_url("redis://localhost") == broker_url(None) == DEFAULT_URL
    monkeypatch.setenv("DRAGOMAN_URL", "http://host:8420")
    assert broker_url("pyamqp://guest@localhost//") == "http://host:8420"


def test_what_is_not_there_raises_with_a_hint() -> None:
    refuse_unknown("x", {"link": None}, {})
    with pytest.raises(NotInCompat, match=r"'link' of x is not in .*: write a chain"):
        refuse_unknown("x", {"link": 1}, {"link": "write a chain"})
    with pytest.raises(ImportError, match=r"signals is not in .*: use middleware"):
        from dragoman.compat.celery import signals  # noqa: F401
    assert not hasattr(celery, "nothing")
    assert hasattr(hints, "module_getattr")
