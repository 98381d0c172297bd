"""Names of a package that are imported when they are first used, from one table with each name once.

A program loads only what it needs. Type checkers read the names in `__init__.pyi`, which `make reference` writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

Exports: TypeAlias = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]
"""`__getattr__`, `__dir__` and `__all__` of a package."""


def modules_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, from a table of names by their module."""
    return {name: module for module, listed in names.items() for name in listed.split()}


def exports(package: str, names: Mapping[str, str]) -> Exports:
    """Return what gives a package these names, which are separated by blanks, by the module that defines them."""
    modules = modules_of(names)

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return find, listed, list(modules)
