"""Files that would exhaust the broker: YAML aliases, Jinja loops, and TOML without an end."""

from pathlib import Path

import pytest

from dragoman.security.policy_text import BadPolicy, read_policy
from dragoman.services.inventory_files import BrokenInventory, read_source

BOMBS = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    ),
    "recursion": "a: &a\n  b: *a\n",
    "depth": "a: " + "[" * 5000 + "]" * 5000,
    "power": "a: {{ 9 ** 9 ** 9 }}",
    "repeat": "a: {{ 'x' * 10 ** 10 }}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "range": "a: {{ range(10 ** 9) | list }}",
    "format": "a: {{ '%9999999999d' % 1 }}",
    "attribute": "a: {{ ''.__class__.__mro__ }}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_inventory_that_would_exhaust_the_broker_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "inventory.yaml").write_text(BOMBS[name])
    # The test's time-out fails it if the file is read to its end.
    with pytest.raises(BrokenInventory, match=r"inventory\.yaml"):
        read_source(tmp_path)


def test_a_policy_that_is_nested_without_an_end_is_refused() -> None:
    for text in ("a = " + "[" * 100_000, "[" + "a." * 5_000 + "b]\n"):
        with pytest.raises(BadPolicy):
            read_policy(text)
