"""`pilotage new`: write a small project that works."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from pilotage.cli.screen import Screen
from pilotage.cli.text import TextSpan, Tone, columns, line
from pilotage.errors import CallerError

_LONGEST_NAME = 100
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    "{package}/__init__.py": "init.py.txt",
    "{package}/agents.py": "agents.py.txt",
    "{package}/tools.py": "tools.py.txt",
    "{package}/main.py": "main.py.txt",
    "tests/test_agents.py": "test_agents.py.txt",
}
_NEXT = (
    ("cd {name}", ""),
    ('pilotage run Greeter "greet Ada"', "no key, no server: the offline model"),
    ("pilotage chat Greeter", "the same, line by line"),
    ("python -m pytest", "its test"),
    ("pilotage doctor", "check the set-up"),
)


def new_project(name: str) -> None:
    """Write the project into a new folder of its name.

    Raises:
        CallerError: the name is invalid, or a file or folder has it.
    """
    root = Path.cwd() / name
    if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) and root.exists():
        raise CallerError(f"there is a {name!r} here already. Choose another name, or move it away.")
    package = package_of(name)
    written = project_files(name, package)
    try:
        for path, text in written.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    except OSError as error:
        raise CallerError(f"{str(root)!r} cannot be written: {error.strerror}.") from error
    screen = Screen.of_process()
    screen.print(*(line(TextSpan(f"{name}/{path}", Tone.NAME)) for path in written))
    screen.message((), line(TextSpan("next:", Tone.STRONG)), *columns([_next(*each, name) for each in _NEXT]))


def _next(command: str, words: str, name: str) -> list[TextSpan]:
    return [TextSpan(f"  {command.format(name=name)}", Tone.COMMAND), TextSpan(words, Tone.QUIET)]


def project_files(name: str, package: str) -> dict[str, str]:
    """Return the files of a project by path."""
    stored = files("pilotage.cli") / "scaffold" / "files"
    texts = {path: (stored / source).read_text() for path, source in _FILES.items()}
    return {
        path.format(package=package): text.replace("{{package}}", package).replace("{{name}}", name)
        for path, text in texts.items()
    }


def package_of(name: str) -> str:
    """Return the package name of a project.

    Raises:
        CallerError: it is no package name, or would hide another module.
    """
    package = name.replace("-", "_")
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or keyword.iskeyword(package):
        raise CallerError(
            f"{name!r} is no name for a project. Use small letters, digits and dashes: for example help-desk."
        )
    if (
        package in ("tests", "pilotage")
        or package in sys.stdlib_module_names
        or find_spec(package) is not None
    ):
        raise CallerError(f"{name!r} would hide the installed module {package!r}. Choose another name.")
    return package
