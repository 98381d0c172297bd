"""`pilotage new`, from an installed package: what it writes tests itself and runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.behaviour.till import Till
from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds Pilotage as a wheel installs it, not as it lies in the repository."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)  # noqa: S603
    (wheel,) = wheels.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)  # noqa: S603
    environ = {name: each for name, each in os.environ.items() if not name.startswith("PILOTAGE_")}
    return {**environ, "PYTHONPATH": str(target)}


def called(installed: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(  # noqa: S603 - our own command
        command, cwd=folder, env=installed, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_a_new_project_passes_its_own_test_and_runs_without_a_server(
    installed: dict[str, str], tmp_path: Path
) -> None:
    where = called(installed, tmp_path, "-c", "import pilotage; print(pilotage.__file__)").stdout
    assert where.startswith(installed["PYTHONPATH"])
    made = called(installed, tmp_path, "-m", "pilotage.cli.main", "new", "help-desk")
    assert made.returncode == 0
    assert [each.split("  ")[1] for each in made.stderr.splitlines()[2:]] == [
        "cd help-desk",
        'pilotage run Greeter "greet Ada"',
        "pilotage chat Greeter",
        "python -m pytest",
        "pilotage doctor",
    ]
    project = tmp_path / "help-desk"
    assert made.stdout.splitlines() == [
        "help-desk/pyproject.toml",
        "help-desk/README.md",
        "help-desk/.gitignore",
        "help-desk/help_desk/__init__.py",
        "help-desk/help_desk/agents.py",
        "help-desk/help_desk/tools.py",
        "help-desk/help_desk/main.py",
        "help-desk/tests/test_agents.py",
    ]
    tested = called(installed, project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert (tested.returncode, "1 passed" in tested.stdout) == (0, True), tested.stdout + tested.stderr
    ran = called(installed, project, "-m", "pilotage.cli.main", "run", "Greeter", "greet Ada")
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "Good day, Countess."), ran.stderr
    well = called(installed, project, "-m", "pilotage.cli.main", "doctor")
    assert (well.returncode, "application  help-desk: no problems" in well.stdout) == (0, True), well.stdout
    readme = (project / "README.md").read_text()
    assert "export PILOTAGE_MODEL_NAME=" in readme
    assert not [file for file in project.rglob("*.*") if file.is_file() and b"{{" in file.read_bytes()]
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    assert settings["tool"]["pilotage"]["app"] == "help_desk.main:app"


@pytest.mark.parametrize("name", ["Help Desk", "2fast", "class", "../out", "-desk", ""])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    refused = Till(tmp_path).call("new", "--", name)
    assert refused.code == 2
    assert "is no name for a project" in refused.err


@pytest.mark.parametrize("name", ["json", "pilotage", "tests", "pydantic"])
def test_a_name_that_would_hide_another_module_is_refused(tmp_path: Path, name: str) -> None:
    refused = Till(tmp_path).call("new", name)
    assert (refused.code, "would hide the installed module" in refused.err) == (2, True)
    assert not (tmp_path / name).exists()


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    refused = Till(tmp_path).call("new", "shop")
    assert (refused.code, "there is a 'shop' here already" in refused.err) == (2, True)
    assert list((tmp_path / "shop").iterdir()) == []
