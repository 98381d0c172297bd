"""Lookup of an agent's architecture: a value, or one that an installed package registered by name.

A package registers a factory without parameters in the entry point group `pilotage.architectures`. It is imported when
an agent first uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint
from inspect import Parameter, signature
from typing import cast

from pilotage.agent.ports.architecture import Architecture
from pilotage.container.plugins import entries, search_path
from pilotage.errors import AgentDefinitionError

ARCHITECTURES = "pilotage.architectures"
DEFAULT_ARCHITECTURE = "react"
_MEMBERS = ("name", "run")


def find_architecture(wanted: Architecture | str | None = None) -> Architecture:
    """Return the architecture that an agent declares; by default `react`.

    Raises:
        AgentDefinitionError: no architecture of that name is installed, or the object found is none.
    """
    if wanted is None or isinstance(wanted, str):
        return _installed(DEFAULT_ARCHITECTURE if wanted is None else wanted)
    return _checked(wanted, f"the architecture {wanted!r}")


def load_architecture(name: str, installed: Iterable[EntryPoint]) -> Architecture:
    """Create the installed architecture of this name.

    Raises:
        AgentDefinitionError: it is not installed, is installed twice, or cannot be created.
    """
    entries = sorted(set(installed), key=lambda entry: (entry.name, entry.value))
    found = sorted({entry.value for entry in entries if entry.name == name})
    if not found:
        names = ", ".join(repr(known) for known in dict.fromkeys(entry.name for entry in entries)) or "none"
        raise AgentDefinitionError(
            f"no architecture {name!r} is installed. Installed are: {names}. Use one of them, hand over a value "
            f"(architecture=React()), or install the package that registers {name!r} under {ARCHITECTURES!r}."
        )
    if len(found) > 1:
        raise AgentDefinitionError(
            f"the architecture {name!r} is installed twice: {' and '.join(found)}. Uninstall one of the packages."
        )
    return _made(EntryPoint(name, found[0], ARCHITECTURES))


@cache
def _installed(name: str) -> Architecture:
    return load_architecture(name, entries(search_path()).get(ARCHITECTURES, ()))


def _made(entry: EntryPoint) -> Architecture:
    try:
        make: Callable[[], object] = entry.load()
        needed = _needed_by(make)
        made = make() if not needed else None
    except Exception as error:
        raise AgentDefinitionError(
            f"the architecture {entry.name!r} ({entry.value}) failed: {type(error).__name__}: {error}. "
            "Fix or upgrade the package, or use another architecture."
        ) from error
    if needed:
        raise AgentDefinitionError(
            f"the architecture {entry.name!r} needs {', '.join(needed)}, so its name is not enough. "
            f"Hand over a value: architecture={entry.attr}({needed[0]}=...)."
        )
    return _checked(made, f"what {entry.value} makes for the architecture {entry.name!r}")


def _needed_by(make: Callable[[], object]) -> list[str]:
    """Return the required parameters of a factory."""
    try:
        parameters = signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    given = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is Parameter.empty and each.kind not in given]


def _checked(given: object, what: str) -> Architecture:
    if isinstance(given, type):
        raise AgentDefinitionError(f"{what} is a class. Hand over a value of it: {given.__name__}().")
    # A protocol's own instance check takes longer than the rest of starting a run.
    if not all(hasattr(given, member) for member in _MEMBERS):
        raise AgentDefinitionError(
            f"{what} is no architecture. It needs name and run(session, deps, prompt)."
        )
    return cast(Architecture, given)
