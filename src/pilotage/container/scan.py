"""Scanning: importing a package and finding the pods defined in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from types import ModuleType

from pilotage.container.pod import Pod
from pilotage.errors import PodDefinitionError


def find_pods(root: str | ModuleType, exclude: str | Iterable[str] = ()) -> list[object]:
    """The pods defined in a module or, for a package, in it and everything below, in order of definition.

    `exclude` names modules to leave out with all below them; `*` stands for any part of a name.
    """
    patterns = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    return [pod for module in _modules(root, patterns) for pod in _pods_defined_in(module)]


def _modules(root: str | ModuleType, patterns: tuple[str, ...]) -> Iterator[ModuleType]:
    module = _find(root) if isinstance(root, str) else root
    yield module
    import pkgutil  # noqa: PLC0415 - only for those who scan

    for info in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda info: info.name):
        name = f"{module.__name__}.{info.name}"
        # Importing a __main__ would run the program.
        if info.name != "__main__" and not any(fnmatchcase(name, pattern) for pattern in patterns):
            yield from _modules(_import(name), patterns)


def _find(name: str) -> ModuleType:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise PodDefinitionError(
            f"scan({name!r}): there is no module {error.name!r}. "
            "Write the dotted name of a package or module that can be imported, or pass the module itself."
        ) from error


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        error.add_note(f"raised while importing {name} to scan it for pods")
        raise


def _pods_defined_in(module: ModuleType) -> Iterator[object]:
    """What a module merely imports belongs to another module, which may not be meant."""
    for value in tuple(vars(module).values()):
        if getattr(value, "__module__", None) == module.__name__ and Pod.exists(value):
            yield value
