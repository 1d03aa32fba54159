"""Every attack of the table has a test, and the documentation shows the table as it is."""

import re
from pathlib import Path

from tests.security.attacks.attack_table import ATTACKS, markdown

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def test_every_attack_is_tried_by_a_test_that_takes_its_dialects_from_the_table() -> None:
    texts = [path.read_text() for path in HERE.glob("test_*.py")]
    used = {name for text in texts for name in re.findall(r'tried_in\("([^"]+)"\)', text)}
    assert used == {*ATTACKS}


def test_the_documentation_has_the_table() -> None:
    assert markdown() in PAGE.read_text(), markdown()
