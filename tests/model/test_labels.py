"""Label expressions: every operator, and what cannot be parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.labels import ANNOUNCED, PREFETCH, Requirement, own_labels, parse_labels

LABELS = {"zone": "eu", "gpu": "", "tier": "prod", "arch": "arm", "cpus": "8", "mood": "fine"}


def holds(text: str) -> bool:
    return all(requirement.holds(LABELS) for requirement in parse_labels(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ,",
        "zone=eu",
        "zone==eu",
        "zone = eu",
        "gpu",
        "!spot",
        "! spot",
        "tier!=test",
        "missing!=test",
        "arch in (arm, x86)",
        "arch in(arm)",
        "os notin (win)",
        "arch notin (x86,riscv)",
        "cpus>4",
        "cpus > 7.5",
        "cpus<9",
        "zone=eu, gpu, !spot, arch in (arm, x86), cpus>4",
    ],
)
def test_an_expression_that_fits_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "zone=us",
        "missing=eu",
        "spot",
        "!gpu",
        "tier!=prod",
        "arch in (x86)",
        "missing in (x86)",
        "arch notin (arm, x86)",
        "cpus>8",
        "cpus<8",
        "mood>1",
        "missing<1",
        "zone=eu, spot",
    ],
)
def test_an_expression_that_does_not_fit_does_not_hold(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "=eu",
        "zone=",
        "zone=eu us",
        "a b",
        "arch in (arm",
        "arch in arm)",
        "arch in ()",
        "arch within (arm)",
        "cpus>many",
        "a=(b)",
        "!",
        "-x",
        "a),b",
    ],
)
def test_a_part_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="the label requirement") as caught:
        parse_labels(f"gpu, {text}")
    assert repr(text) in str(caught.value)


def test_commas_inside_parentheses_do_not_divide() -> None:
    assert parse_labels("a in (x, y), b") == (
        Requirement("a", "in", ("x", "y")),
        Requirement("b", "exists"),
    )


@given(st.text(alphabet="ab01.,=!<>() \tin", max_size=30))
def test_any_text_is_an_expression_or_a_value_error(text: str) -> None:
    try:
        requirements = parse_labels(text)
    except ValueError:
        return
    assert all(requirement.holds(LABELS) in (True, False) for requirement in requirements)


def test_labels_of_the_sdk_are_not_those_of_the_owner() -> None:
    labels = {"zone": "eu", ANNOUNCED: "a,b", PREFETCH: "4", "retry.add": "3"}
    assert own_labels(labels) == {"zone": "eu"}
