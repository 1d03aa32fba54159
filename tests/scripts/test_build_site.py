"""The documentation site is built, with every link checked, and its reference is complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model.fault import FaultCode
from dragoman.model.record import Kind

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_site_is_built_without_a_broken_link() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.build_site"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    reference = ROOT / "build" / "site-source" / "reference"
    commands = (reference / "cli.md").read_text()
    assert "## dragoman ledger seal" in commands
    assert "## Worker" in (reference / "sdk.md").read_text()
    faults = (reference / "faults.md").read_text()
    assert [code for code in FaultCode if f"| `{code}` |" not in faults] == []
    records = (reference / "records.md").read_text()
    assert [kind for kind in Kind if f"| `{kind}` |" not in records] == []
    assert (ROOT / "site" / "docs" / "tutorial.html").exists()
