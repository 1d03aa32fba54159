"""Problem documents."""

import json
import re
from pathlib import Path

import pytest

from dragoman.model.fault import Fault, FaultCode
from dragoman.web.problems import STATUS_OF, Problem, of_fault


@pytest.mark.parametrize("code", list(FaultCode))
def test_every_fault_has_a_status_that_says_it_went_wrong(code: FaultCode) -> None:
    problem = of_fault(Fault(code), job="j")
    assert 400 <= problem.status < 600
    document = json.loads(bytes(problem.response().body))
    assert (document["code"], document["status"]) == (code.value, STATUS_OF[code])
    assert document["definite"] is Fault(code).is_definite
    assert document["job"] == "j"
    assert document["detail"]


def test_what_may_be_over_soon_says_when_to_ask_again() -> None:
    assert of_fault(Fault(FaultCode.QUEUE_FULL)).response().headers["retry-after"] == "1"
    assert "retry-after" not in of_fault(Fault(FaultCode.CONFLICT)).response().headers


def test_a_problem_of_http_itself_goes_by_its_name_there() -> None:
    problem = Problem(415, "send JSON")
    assert problem.document()["code"] == "unsupported_media_type"
    assert problem.response().media_type == "application/problem+json"


def test_the_page_has_the_status_of_every_fault() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    told = dict(re.findall(r"\| `(\w+)` \| (\d{3}) \|", page))
    assert told == {code.value: str(status) for code, status in STATUS_OF.items()}
