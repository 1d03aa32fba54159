"""Values in JSON, bytes included."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.json_values import from_jsonable, to_jsonable
from dragoman.model.content import Unmappable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_every_value_reads_back_through_json(value: Any) -> None:
    assert from_jsonable(json.loads(json.dumps(to_jsonable(value)))) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, [{None: 1}], {1}, object()])
def test_a_value_without_a_json_form_is_refused(value: Any) -> None:
    with pytest.raises(Unmappable):
        to_jsonable(value)


@pytest.mark.parametrize("said", [{"$bytes": "not base64!"}, {"$bytes": 1}, {"$bytes": "", "x": 1}])
def test_what_only_looks_like_bytes_stays_as_it_is(said: Any) -> None:
    assert from_jsonable(said) == said
