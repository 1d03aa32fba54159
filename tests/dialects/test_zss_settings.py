"""The defaults of ZSS: what a deployment that says nothing gets."""

from dragoman.dialects.zss.settings import ZssSettings


def test_requests_go_out_at_once_or_not_at_all_in_turn() -> None:
    terms = ZssSettings().terms
    assert terms.patience == 0
    assert not terms.strict
    assert terms.balance == "round_robin"
    assert terms.timeout == 600


def test_what_titanic_keeps_is_durable_and_waits_for_a_day() -> None:
    titanic = ZssSettings().titanic
    assert titanic.strict
    assert titanic.patience == 86_400


def test_an_instance_holds_one_request_at_a_time() -> None:
    assert ZssSettings().credit == 1
