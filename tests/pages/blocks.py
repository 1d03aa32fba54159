"""The code blocks of the pages, as they are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: Languages of blocks that a reader types into a terminal.
SHELL: Final = ("sh", "bash", "console", "shell")
_BLOCK: Final = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of a page. A block that no test can run says so in a comment before it."""

    page: str
    number: int
    language: str
    text: str
    not_run: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"

    def commands(self) -> list[str]:
        """Return what a reader types, command by command; quotes may go over several lines."""
        found: list[str] = []
        waiting = ""
        for line in self.text.splitlines():
            waiting += line.removeprefix("$ ") if self.language == "console" else line
            if _is_open(waiting):
                waiting += "\n"
            elif waiting.strip() and not waiting.lstrip().startswith("#"):
                found.append(waiting)
                waiting = ""
            else:
                waiting = ""
        return found


def _is_open(text: str) -> bool:
    """Whether a quote or a continued line is not at its end."""
    quote = ""
    for before, letter in zip(" " + text, text, strict=False):
        if quote:
            quote = "" if letter == quote else quote
        elif letter == "#" and before.isspace():
            return False
        elif letter in "'\"":
            quote = letter
    return bool(quote) or text.endswith("\\")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page, n, found["language"], found["text"], found["reason"] or "")
        for n, found in enumerate(_BLOCK.finditer(text))
    ]


def pages() -> Iterator[str]:
    """Yield the pages for users."""
    folders = ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md", "src/**/*.md")
    for pattern in folders:
        for path in sorted(ROOT.glob(pattern)):
            if "node_modules" not in path.parts:
                yield str(path.relative_to(ROOT))


def shell_blocks() -> list[Block]:
    """Return all blocks that a reader types into a terminal."""
    return [each for page in pages() for each in blocks(page) if each.language in SHELL]
