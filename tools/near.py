"""Run the tests that are close to the change: `make test-near`, or `python tools/near.py REVISION` for another base.

A change is everything that differs from the base in the work tree. Close to a module are the tests that import it, the
unit tests in the folder that mirrors its own, the programs of users and the architecture tests; for the door and the
journal the crash tests too. Close to a page, a test or an example are the tests that run it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
ALWAYS = "tests/architecture"
DOCS = "tests/docs"
KITS = "tests/conformance"
PROGRAMS = "tests/programs"
CRASHES = "tests/crash"


def main() -> int:
    """Run pytest on the close tests, and return its exit code."""
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    paths = near(changed_since(base), imports_of_tests())
    sys.stdout.write("\n".join(["close to the change:", *(f"  {path}" for path in paths), ""]))
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *paths]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603


def changed_since(base: str) -> list[str]:
    """Return the paths that differ from the base, and those that git does not know yet."""
    return [
        *_git("diff", "--name-only", "--diff-filter=d", base),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def imports_of_tests() -> dict[str, frozenset[str]]:
    """Return for each test module the modules that it imports."""
    return {str(path.relative_to(ROOT)): _imported(path) for path in sorted(ROOT.glob("tests/**/test_*.py"))}


def near(changed: Iterable[str], imports: dict[str, frozenset[str]]) -> list[str]:
    """Return the tests and folders of tests that are close to the changed paths, the smallest set of them."""
    chosen = {ALWAYS}
    for path in map(PurePosixPath, changed):
        chosen |= _near_one(path, imports)
    return sorted(
        each for each in chosen if not any(str(parent) in chosen for parent in PurePosixPath(each).parents)
    )


def _near_one(path: PurePosixPath, imports: dict[str, frozenset[str]]) -> set[str]:
    match path.parts:
        case ("src", "pilotage", *_) if path.suffix == ".py":
            return _near_module(path, imports)
        case ("tests", *_) if path.name.startswith("test_"):
            return {str(path)}
        case ("tests", *_) if path.suffix == ".py":
            return _users(_module(path), imports)
        case ("docs" | "examples", *_) | ("README.md",):
            return {DOCS}
        case _:
            return set()


def _near_module(path: PurePosixPath, imports: dict[str, frozenset[str]]) -> set[str]:
    inside = path.relative_to("src/pilotage")
    mirrors = [f"tests/unit/{inside.parent}", f"tests/{inside.parent}"]
    chosen = {PROGRAMS} | {each for each in mirrors if inside.parent.parts and (ROOT / each).is_dir()}
    if inside.parts[:2] in {("runtime", "door"), ("runtime", "journal")}:
        chosen.add(CRASHES)
    if "ports" in path.parts or "conformance" in path.parts:
        chosen.add(KITS)
    return chosen | _users(_module(path.relative_to("src")), imports)


def _users(module: str, imports: dict[str, frozenset[str]]) -> set[str]:
    return {test for test, imported in imports.items() if module in imported}


def _module(path: PurePosixPath) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    nodes = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return frozenset(
        names | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    )


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True, check=True)  # noqa: S603, S607
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
