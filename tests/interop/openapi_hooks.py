"""Hooks of Schemathesis, loaded by its command: the formats of our description, and a check."""

from typing import Any

import schemathesis
from hypothesis import strategies

_PRINTABLE = strategies.text(
    strategies.characters(exclude_categories=("C", "Z"), max_codepoint=0x2FFF), min_size=1
)
_TARGETS = strategies.sampled_from(("any", "all", "w1", "names:w1,w2", "labels:zone=a", ""))
schemathesis.openapi.format("printable", _PRINTABLE)
schemathesis.openapi.format("target", _TARGETS)


@schemathesis.check
def no_internal_error(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """A status of 500 and more is the fault of a job, never an exception of the broker."""
    if response.status_code >= 500:
        assert response.json()["code"] not in ("internal", "starting"), response.json()
