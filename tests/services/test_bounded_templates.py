"""Templates and parsed files stay within their bounds."""

import pytest
from jinja2.exceptions import SecurityError

from dragoman.services import bounded_templates as module
from dragoman.services.bounded_templates import TooLarge, check_size, render


def test_usual_templates_are_rendered() -> None:
    text = "a: {{ env.X }}\nb: {{ 3 * 4 }}\nc: {{ 'ab' * 3 }}\nd: {{ 2 ** 10 }}\ne: {{ 7 % 4 }}\n"
    assert render(text, {"env": {"X": "x"}}) == "a: x\nb: 12\nc: ababab\nd: 1024\ne: 3\n"


@pytest.mark.parametrize(
    "text", ["{{ 'x' * 10**9 }}", "{{ [1] * 10**9 }}", "{{ 9**9**9 }}", "{{ '%999d' % 1 }}"]
)
def test_values_that_are_too_large_are_refused(text: str) -> None:
    with pytest.raises(SecurityError):
        render(text, {})


def test_a_rendered_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TEXT", 100)
    with pytest.raises(TooLarge, match="over 100 characters"):
        render("{% for i in range(200) %}x{% endfor %}", {})


def test_a_parsed_file_is_bounded_with_its_aliases_expanded() -> None:
    check_size({"a": [1, {"b": "c"}]})
    tree: list[object] = ["x"] * 9
    for _ in range(9):
        tree = [tree] * 9
    with pytest.raises(TooLarge, match="aliases expanded"):
        check_size(tree)
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TooLarge, match="nested over"):
        check_size(loop)
