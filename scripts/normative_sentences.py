"""Print the normative sentences of a protocol text, one on a line.

Sentences and list items that require, recommend, allow or forbid something, in capitals or in small
letters, and the items of lists of functions, settings and statuses. A text without such words (NCL)
states its rules as list items: `--items` prints those of the given sections.

    python scripts/normative_sentences.py nfp.md > tests/vectors/texts/nfp.txt
    python scripts/normative_sentences.py ncl.md --items "Message Flow" "Failure Detection"
"""

import re
import sys
from pathlib import Path

WORDS = re.compile(r"\b(MUST|SHALL|SHOULD|MAY|REQUIRED|must|should|shall|may)\b")
#: A function, a setting, or a status.
LISTED = re.compile(r"^(`\w+`(?: -|:) |\d{3} - )")
#: The paragraph that explains the key words themselves.
EXPLANATION = re.compile(r"key words|you can redistribute|WITHOUT ANY WARRANTY|received a copy")
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def blocks(text: str) -> list[str]:
    """Return paragraphs and list items, without code blocks, headings and tables."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    found, current = [], ""
    for line in [*text.splitlines(), ""]:
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line) or re.match(r"(\d{3} - .*)", line)
        if item or not line.strip() or line.startswith(("#", "|", "![", "[", "<")):
            found.append(current)
            current = item.group(1) if item else ""
        else:
            current = f"{current} {line.strip()}".strip()
    return [block for block in found if block]


def sentences(text: str) -> list[str]:
    """Return the normative sentences of a text, each once."""
    found: dict[str, None] = {}
    for block in blocks(text):
        if EXPLANATION.search(block):
            continue
        if LISTED.match(block):
            found[block] = None
            continue
        for sentence in END.split(block):
            if WORDS.search(sentence):
                found[re.sub(r"\s+", " ", sentence).strip()] = None
    return list(found)


def items(text: str, sections: list[str]) -> list[str]:
    """Return the list items below headings that contain one of the names."""
    found: dict[str, None] = {}
    is_wanted = False
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        if line.startswith("#"):
            is_wanted = any(name in line for name in sections)
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line)
        if item and is_wanted and not item.group(1).endswith((":", "**")):
            found[item.group(1).strip()] = None
    return list(found)


if __name__ == "__main__":
    _, path, *rest = sys.argv
    text = Path(path).read_text()
    print("\n".join(items(text, rest[1:]) if rest else sentences(text)))
