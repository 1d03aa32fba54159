"""The budget of failed logins."""

import pytest

from dragoman.security.login_budget import (
    OF_A_NAME,
    OF_ALL,
    OF_AN_ADDRESS,
    Attempts,
    LoginBudget,
    LoginRate,
)


def failures(budget: LoginBudget, name: str, address: str, most: int = 1000) -> int:
    """Return how many logins may fail at once."""
    for count in range(most):
        if budget.take(name.format(count), address.format(count), 0.0):
            return count
    return most


def test_a_name_an_address_and_all_together_are_limited() -> None:
    assert failures(LoginBudget(), "anna", "10.0.0.{}") == OF_A_NAME.burst
    assert failures(LoginBudget(), "user{}", "10.0.0.1") == OF_AN_ADDRESS.burst
    assert failures(LoginBudget(), "user{}", "10.0.0.{}") == OF_ALL.burst


def test_attempts_come_back_with_time() -> None:
    budget = LoginBudget()
    failures(budget, "anna", "10.0.0.{}")
    wait = budget.take("anna", "10.1.0.1", 0.0)
    assert wait == OF_A_NAME.every
    assert budget.take("anna", "10.1.0.1", wait - 1) == pytest.approx(1.0)
    assert budget.take("anna", "10.1.0.1", wait) == 0.0
    assert budget.take("anna", "10.1.0.1", wait) > 0


def test_logins_that_succeed_cost_nothing() -> None:
    budget = LoginBudget()
    for _ in range(100):
        assert budget.take("anna", "10.0.0.1", 0.0) == 0.0
        budget.give_back("anna", "10.0.0.1", 0.0)


def test_a_refused_attempt_takes_nothing_from_others() -> None:
    budget = LoginBudget()
    failures(budget, "anna", "10.0.0.{}")
    for _ in range(100):
        assert budget.take("anna", "10.9.9.9", 0.0) > 0
    assert budget.take("otto", "10.9.9.9", 0.0) == 0.0


def test_a_clock_that_goes_back_gives_nothing() -> None:
    attempts = Attempts(LoginRate(1, 10.0))
    attempts.change("anna", -1.0, 100.0)
    assert attempts.wait("anna", 50.0) == 10.0


def test_the_memory_is_bounded() -> None:
    attempts = Attempts(LoginRate(1, 10.0))
    for number in range(20_000):
        attempts.change(f"name{number}", -1.0, 0.0)
    assert len(attempts._left) == 10_000
