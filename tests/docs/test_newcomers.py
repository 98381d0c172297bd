"""Three programs that a newcomer writes in the first hour: short, with names that the docs teach, from a wheel."""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PROGRAMS = {
    "support_service/service.py": 40,
    "research_team/team.py": 50,
    "crash_safe_workflow/workflow.py": 30,
}
EXTRAS = "sqlalchemy,fastapi"
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
ELSEWHERE = [pytest.param(each, marks=pytest.mark.exhaustive) for each in ("3.11", "3.13") if each != HERE]
TAUGHT = "\n".join(
    page.read_text() for folder in ("tutorial", "how-to") for page in (ROOT / "docs" / folder).glob("*.md")
)


@pytest.mark.parametrize(("program", "lines"), PROGRAMS.items(), ids=PROGRAMS)
def test_a_newcomers_program_is_short(program: str, lines: int) -> None:
    assert len((ROOT / "examples" / program).read_text().splitlines()) <= lines


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_newcomers_program_uses_only_names_that_tutorial_and_how_to_pages_have(program: str) -> None:
    used = names_used((ROOT / "examples" / program).read_text())
    assert {"Agent"} <= used
    assert [name for name in sorted(used) if not re.search(rf"\b{name}\b", TAUGHT)] == []


def names_used(source: str) -> set[str]:
    """The names, attributes and keywords of a program that neither Python nor the program itself defines."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {each.id for each in nodes if isinstance(each, ast.Name)}
    used |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    used |= {each.arg for each in nodes if isinstance(each, ast.keyword) and each.arg}
    imports = [each for each in nodes if isinstance(each, ast.ImportFrom)]
    ours = {
        alias.name for each in imports if (each.module or "").startswith("pilotage") for alias in each.names
    }
    defined = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    defined |= {
        each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    }
    defined |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    defined |= {alias.name for each in imports for alias in each.names if alias.name not in ours}
    defined |= {alias.name for each in nodes if isinstance(each, ast.Import) for alias in each.names}
    return used - defined - set(dir(builtins)) - set(dir(str)) - set(dir(dict)) - set(dir(sys))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    build = ["-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, *build, str(ROOT)], check=True, capture_output=True)  # noqa: S603
    return next(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.parametrize("version", [HERE, *ELSEWHERE])
def test_the_programs_run_from_an_installed_wheel(version: str, wheel: Path, tmp_path: Path) -> None:
    environ = {name: each for name, each in os.environ.items() if not name.startswith("PILOTAGE_")}
    if version == HERE:
        python = sys.executable
        environ["PYTHONPATH"] = str(tmp_path / "site")
        assert pip_install(python, "--no-deps", "--target", environ["PYTHONPATH"], str(wheel)) == ""
    else:
        python = fresh_environment(version, tmp_path / "venv")
        if problem := pip_install(python, f"{wheel}[{EXTRAS}]", "httpx"):
            pytest.skip(f"pip cannot install what the programs need: {problem}")
    for program in PROGRAMS:
        main = shutil.copytree(ROOT / "examples" / Path(program).parent, tmp_path / program) / "main.py"
        done = subprocess.run(  # noqa: S603 - our own examples
            [python, str(main), "--check"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout[-9:]) == (0, "demo: ok\n"), done.stderr


def fresh_environment(version: str, folder: Path) -> str:
    """Return the interpreter of a new environment of this version of Python; skip the test where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [*map(str, sorted(pyenv.glob(f"{version}.*/bin/python"))), f"python{version}"]
    for candidate in filter(shutil.which, candidates):
        made = subprocess.run([candidate, "-m", "venv", str(folder)], capture_output=True, check=False)  # noqa: S603
        if made.returncode == 0:
            return str(folder / "bin" / "python")
    pytest.skip(f"there is no Python {version} here")


def pip_install(python: str, *words: str) -> str:
    """Install packages, and return the end of what pip says if it fails."""
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    done = subprocess.run([*install, *words], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if done.returncode == 0 else done.stderr[-200:] or "pip failed"
