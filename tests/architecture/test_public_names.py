"""What the packages export, and that the reference shows exactly that."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from tools import reference

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "pilotage": "pilotage.md",
    "pilotage.agent": "agent.md",
    "pilotage.container": "container.md",
    "pilotage.runtime": "runtime.md",
    "pilotage.architectures": "architectures.md",
    "pilotage.models": "models.md",
    "pilotage.context": "context.md",
    "pilotage.testing": "testing.md",
    "pilotage.safety": "safety.md",
    "pilotage.errors": "errors.md",
    "pilotage.inbound": "inbound.md",
    "pilotage.adapters.fastapi": "adapters-fastapi.md",
    "pilotage.adapters.agui": "adapters-agui.md",
    "pilotage.adapters.typer": "adapters-typer.md",
    "pilotage.adapters.asgi": "adapters-asgi.md",
    "pilotage.adapters.anthropic": "adapters-anthropic.md",
    "pilotage.adapters.openai": "adapters-openai.md",
    "pilotage.adapters.sealing": "adapters-sealing.md",
    "pilotage.adapters.sqlalchemy": "adapters-sqlalchemy.md",
}


def exported(package: str) -> list[str]:
    module = import_module(package)
    return list(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_exported_is_there_once(package: str) -> None:
    module, names = import_module(package), exported(package)
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_public_is_in_a_package_that_it_does_not_export(package: str) -> None:
    module = import_module(package)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
        if getattr(value, "__module__", "").startswith("pilotage")
    }
    assert public - set(exported(package)) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_class_and_function_has_a_docstring(package: str) -> None:
    module = import_module(package)
    values = {name: getattr(module, name) for name in exported(package)}
    documented = {n: v for n, v in values.items() if inspect.isclass(v) or inspect.isfunction(v)}
    # A dataclass without a docstring gets its signature as one.
    missing = [n for n, v in documented.items() if not v.__doc__ or v.__doc__.startswith(f"{v.__name__}(")]
    assert missing == []


@pytest.mark.parametrize(("package", "page"), PACKAGES.items())
def test_the_reference_shows_exactly_what_is_exported(package: str, page: str) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text()
    shown = re.findall(r"^\| \[?`(\w+)`(?:\]\([\w.-]*#[\w.]+\))? \|", text, re.MULTILINE)
    assert shown == exported(package), "run: make reference"
    assert f"::: {package}" in text


@pytest.mark.parametrize("package", reference.STUBS)
def test_the_stub_has_the_names_of_the_package(package: str) -> None:
    text, module = reference.STUBS[package].read_text(), import_module(package)
    assert text == reference.stub(package), "run: make reference"
    named = re.findall(r"^from ([\w.]+) import (\w+) as (\w+)$", text, re.MULTILINE)
    assert sorted(name for _, name, _ in named) == sorted(module.__all__)
    assert all(getattr(import_module(home), name) is getattr(module, name) for home, name, _ in named)


@pytest.mark.parametrize("package", reference.STUBS)
def test_a_name_that_a_package_does_not_have_is_an_attribute_error(package: str) -> None:
    module = import_module(package)
    assert not hasattr(module, "Nothing")
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("package", reference.STUBS)
def test_no_name_is_that_of_a_module_which_would_hide_it(package: str) -> None:
    modules = {module.name for module in iter_modules(import_module(package).__path__)}
    assert modules & set(exported(package)) == set()
