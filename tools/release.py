"""Prepare a release: `make release VERSION=0.2.0`.

Sets the version in pyproject.toml, the one place that has it, cuts the changelog, builds wheel and source distribution,
checks their metadata and contents, installs the wheel into a fresh environment on each supported Python and runs the
README's first agent there. Publishing, the commit and the tag are left to a person; the commands are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from email.parser import BytesParser
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.metadata import Metadata
from packaging.version import Version
from tools.interpreters import find

ROOT = Path(__file__).parents[1]
PROJECT, CHANGELOG, README = ROOT / "pyproject.toml", ROOT / "CHANGELOG.md", ROOT / "README.md"
PYTHONS = ("3.11", "3.12", "3.13")
UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r'^version = "(?P<version>[^"]+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be made from this state of the project."""


def main() -> int:
    """Prepare the release that the command line names, or check the present version with --check."""
    parser = argparse.ArgumentParser(description="prepare a release")
    parser.add_argument(
        "version", nargs="?", help="the new version; none checks the distributions of the present one"
    )
    parser.add_argument(
        "--pythons", default=" ".join(PYTHONS), help="Python versions to install the wheel on"
    )
    options = parser.parse_args()
    try:
        if options.version:
            prepare(options.version)
        distributions = build(ROOT / "dist")
        check(*distributions)
        for python in options.pythons.split():
            smoke_test(python, distributions[0])
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    say_next(options.version)
    return 0


def prepare(version: str) -> None:
    """Write the new version and the changelog's new section."""
    if _run("git", "status", "--porcelain").strip():
        raise ReleaseError("the work tree has changes: commit them first")
    project = PROJECT.read_text()
    changelog = cut(CHANGELOG.read_text(), version, datetime.now(UTC).date().isoformat())
    PROJECT.write_text(raised(project, version))
    CHANGELOG.write_text(changelog)


def raised(project: str, version: str) -> str:
    """Return the project file with the new version, which must be higher than the one that it has."""
    if (found := _VERSION.search(project)) is None:
        raise ReleaseError("pyproject.toml has no version")
    if Version(version) <= Version(found["version"]):
        raise ReleaseError(f"{version} is not higher than {found['version']}")
    return _VERSION.sub(f'version = "{version}"', project, count=1)


def cut(changelog: str, version: str, day: str) -> str:
    """Return the changelog with its unreleased entries under the new version."""
    before, heading, after = changelog.partition(UNRELEASED)
    if not heading or after.lstrip().startswith("## "):
        raise ReleaseError("CHANGELOG.md has no entries under Unreleased")
    return f"{before}{UNRELEASED}\n## {version} - {day}\n{after}"


def build(folder: Path) -> tuple[Path, Path]:
    """Build wheel and source distribution, and return their paths."""
    for old in folder.glob("pilotage-*"):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def check(wheel: Path, source: Path) -> None:
    """Check the metadata of the wheel, and that both files hold the package and nothing beside it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata)
    Metadata.from_email(text, validate=True)
    if not BytesParser().parsebytes(text).get_payload():
        raise ReleaseError("the metadata has no description")
    if "pilotage/py.typed" not in names:
        raise ReleaseError("the wheel has no py.typed: type checkers would not read the package")
    if foreign := [name for name in names if not name.startswith("pilotage")]:
        raise ReleaseError(f"the wheel has files beside the package: {foreign}")
    with tarfile.open(source) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    if foreign := sorted(
        folders - {"src", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", "pyproject.toml", ".gitignore"}
    ):
        raise ReleaseError(f"the source distribution has files beside the package: {foreign}")


def smoke_test(python: str, wheel: Path) -> None:
    """Install the wheel into a fresh environment, and run the README's first agent and the command line there."""
    if (interpreter := find(python)) is None:
        raise ReleaseError(f"there is no Python {python} to try the wheel on; name others with PYTHONS=...")
    with TemporaryDirectory() as folder:
        _run(str(interpreter), "-m", "venv", folder)
        inside = f"{folder}/bin/python"
        _run(
            inside,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{wheel}[cli,sqlalchemy]",
        )
        greeting = _run(inside, "-c", first_program(README.read_text()), cwd=folder)
        version = _run(f"{folder}/bin/pilotage", "--version", cwd=folder)
    if not greeting.strip():
        raise ReleaseError(f"the README's first agent printed nothing on Python {python}")
    sys.stdout.write(f"Python {python}: {version.strip()}; {greeting.strip()}\n")


def first_program(readme: str) -> str:
    """Return the first Python block of a page."""
    if (found := re.search(r"^```python[^\n]*\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)) is None:
        raise ReleaseError("README.md has no Python block")
    return found[1]


def say_next(version: str | None) -> None:
    """Print what a person does next."""
    if version:
        sys.stdout.write(
            f"dist/ holds {version}. Next:\n"
            f"  .venv/bin/python -m tests.golden.make   # databases that later versions must open\n"
            f"  git commit --all --message 'Release {version}'\n"
            f"  git tag v{version}\n"
            f"  publish the files in dist/\n"
        )
    else:
        sys.stdout.write("dist/ holds the present version, checked. A new one: make release VERSION=...\n")


def _run(*command: str, cwd: str | Path = ROOT) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    done = subprocess.run(command, cwd=cwd, env=environment, text=True, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
