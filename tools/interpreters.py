"""Find a working Python interpreter by its version: `python tools/interpreters.py 3.13` prints its path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def main() -> int:
    """Print the path of the interpreter, or the way to get one."""
    version = sys.argv[1]
    if found := find(version):
        sys.stdout.write(f"{found}\n")
        return 0
    sys.stderr.write(f"there is no Python {version}: install one as python{version}, or with pyenv\n")
    return 1


def find(version: str) -> Path | None:
    """Return the first interpreter of this version that runs."""
    return next((each for each in _candidates(version) if _runs(each, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def _runs(interpreter: Path, version: str) -> bool:
    """Return whether it starts: a shim of pyenv may stand for a version that is not selected."""
    tell = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([interpreter, "-c", tell], text=True, capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0 and done.stdout.strip() == version


if __name__ == "__main__":
    sys.exit(main())
