"""Build a published Bacalhau with Go and run the tests against it: `make interop-bacalhau`.

The binary stays in `build/bacalhau`. Without Go, or where the module cannot be downloaded, this
prints the reason and exits with 0: the tests are skipped. A build that fails is a failure.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

MODULE: Final = "github.com/bacalhau-project/bacalhau"
VERSION: Final = "v1.9.3"
FOLDER: Final = Path("build") / "bacalhau"
TESTS: Final = "tests/interop/test_bacalhau.py"


def download(go: str, module: Path) -> bool:
    """Prepare a Go module that needs the pinned version; return whether that can be downloaded."""
    shutil.rmtree(module, ignore_errors=True)
    module.mkdir(parents=True)
    subprocess.run([go, "mod", "init", "interop"], cwd=module, check=True)
    got = subprocess.run([go, "get", f"{MODULE}@{VERSION}"], cwd=module, check=False)
    return got.returncode == 0


def main(arguments: list[str]) -> int:
    """Build and test; return the exit code of what failed, or pytest's."""
    go = shutil.which("go")
    if go is None:
        return skip("Bacalhau is built with Go, and there is no `go` here")
    binary, module = (FOLDER / f"bacalhau-{VERSION}").absolute(), FOLDER / "module"
    if not binary.exists():
        if not download(go, module):
            return skip(f"{MODULE} {VERSION} cannot be downloaded")
        built = subprocess.run([go, "build", "-o", str(binary), MODULE], cwd=module, check=False)
        if built.returncode:
            return built.returncode
    command = [sys.executable, "-m", "pytest", TESTS, "-v", *arguments]
    env = os.environ | {"BACALHAU": str(binary)}
    return subprocess.run(command, env=env, check=False).returncode


def skip(reason: str) -> int:
    """Print why nothing was tested."""
    sys.stdout.write(f"skipped: {reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
