"""Build the documentation site: `make docs`. The pages stay where they are read in the source.

They are copied into `build/site-source` with the same paths, so links between them work. A link to
a file that is no page (a module, a folder) becomes plain text. mkdocs then checks every link.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts import site_reference

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site-source"
PATTERNS = (
    *("*.md", "docs/**/*.md", "docs/**/*.webp", "docs/**/*.svg", "examples/**/*.md"),
    *("deploy/**/*.md", "src/**/*.md"),
)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def sources() -> list[Path]:
    """Return the pages and pictures, relative to the project."""
    found = {path for pattern in PATTERNS for path in ROOT.glob(pattern)}
    hidden = ("node_modules", ".venv", "build")
    return sorted(p.relative_to(ROOT) for p in found if not any(h in p.parts for h in hidden))


def stage(folder: Path) -> None:
    """Copy the pages, with links that the site can follow, and add the reference."""
    pages = set(sources())
    for path in pages:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(with_site_links((ROOT / path).read_text(), path, pages))
        else:
            shutil.copyfile(ROOT / path, target)
    site_reference.write(folder)


def with_site_links(text: str, page: Path, pages: set[Path]) -> str:
    """Point links to folders at their page; make links to other files plain text."""

    def mend(found: re.Match[str]) -> str:
        picture, label, link, anchor = found[1], found[2], found[3], found[4] or ""
        target = (ROOT / page.parent / link).resolve()
        if target.is_relative_to(ROOT):
            inside = target.relative_to(ROOT)
            if inside in pages:
                return found[0]
            if inside / "README.md" in pages:
                return f"{picture}[{label}]({link.rstrip('/')}/README.md{anchor})"
        return label

    return _LINK.sub(mend, text)


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> int:
    """Build the site into a folder; return the exit code of mkdocs, which checks all links."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    stage(SOURCE)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(site)], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(build(ROOT / "site"))
