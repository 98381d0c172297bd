"""Pin everything `make` installs into constraints.txt, for every platform, with the hashes of all its files.

The hashes are those of every file of a version: wheels of all systems and Python versions, and its source. Not a single
address is in it: the files may come from any index, or from a folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "constraints.txt"
HEADER = "# Pins everything `make` installs, by hash. Written by `make lock`; not edited by hand.\n"
_UNHASHED = re.compile(r"^[\w.-]+==[^\\\n]*$", re.MULTILINE)


def main() -> int:
    """Let uv resolve the project with its development groups, keep names, versions and hashes."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--upgrade"]
    command += [
        "--no-header",
        "--no-annotate",
        "--generate-hashes",
        "--python-version",
        "3.11",
        "--all-extras",
    ]
    command += ["--group", "pyproject.toml:dev", "pyproject.toml", "-"]
    build_tools = "pip\nhatchling\neditables\n"
    done = subprocess.run(command, cwd=ROOT, input=build_tools, text=True, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        sys.stderr.write(done.stderr)
        return done.returncode
    if "://" in done.stdout:
        sys.stderr.write("the resolver wrote an address; constraints.txt is unchanged\n")
        return 1
    if unhashed := _UNHASHED.findall(done.stdout):
        sys.stderr.write(f"there is no hash for {', '.join(unhashed)}; constraints.txt is unchanged\n")
        return 1
    TARGET.write_text(HEADER + done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
