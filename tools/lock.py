"""Pin what `make` installs, for every platform, with the hashes of all its files.

`constraints.txt` has everything a checkout uses; `constraints-demo.txt` is the part that `make demo` installs: the
package with the extras of the demo, without checkers, test tools and documentation tools.

The hashes are those of every file of a version: wheels of all systems and Python versions, and its source. No address
is in either file: the files may come from any index, or from a folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALL = ROOT / "constraints.txt"
DEMO = ROOT / "constraints-demo.txt"
HEADER = "# Pins {what}, by hash. Written by `make lock`; not edited by hand.\n"
DEMO_EXTRAS = ("agui", "cli", "egress", "openai", "serve", "sqlalchemy")
BUILD_TOOLS = "pip\nhatchling\neditables\n"
_COMPILE = [
    sys.executable,
    "-m",
    "uv",
    "pip",
    "compile",
    "--quiet",
    "--universal",
    "--python-version",
    "3.11",
]
_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==.*\n(?:    --hash=.*\n)*", re.MULTILINE)
_UNHASHED = re.compile(r"^[\w.-]+==[^\\\n]*$", re.MULTILINE)


class LockError(Exception):
    """The resolver failed, or its answer cannot be used as a lock file."""


def main() -> int:
    """Resolve the project with the newest versions and write both files."""
    try:
        lock = checked(
            resolved("--upgrade", "--generate-hashes", "--all-extras", "--group", "pyproject.toml:dev")
        )
        ALL.write_text(HEADER.format(what="everything `make` installs") + lock)
        write_demo()
    except LockError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def write_demo() -> None:
    """Write the entries of constraints.txt that the extras of the demo lead to."""
    extras = [word for extra in DEMO_EXTRAS for word in ("--extra", extra)]
    needed = resolved("--constraints", ALL.name, *extras)
    names = {each["name"] for each in _ENTRY.finditer(needed)}
    entries = [each[0] for each in _ENTRY.finditer(ALL.read_text()) if each["name"] in names]
    DEMO.write_text(
        HEADER.format(what="what `make demo` installs, a part of constraints.txt") + "".join(entries)
    )


def resolved(*options: str) -> str:
    """Return what uv resolves for the project and the tools that build it, without comments."""
    command = [*_COMPILE, "--no-header", "--no-annotate", *options, "pyproject.toml", "-"]
    done = subprocess.run(command, cwd=ROOT, input=BUILD_TOOLS, text=True, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise LockError(done.stderr)
    return done.stdout


def checked(lock: str) -> str:
    """Return the lock if it has no address and a hash for every entry."""
    if "://" in lock:
        raise LockError("the resolver wrote an address")
    if unhashed := _UNHASHED.findall(lock):
        raise LockError(f"there is no hash for {', '.join(unhashed)}")
    return lock


if __name__ == "__main__":
    sys.exit(main())
