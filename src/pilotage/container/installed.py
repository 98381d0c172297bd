"""What is installed: entry points and packages, read once, and again when a folder of the search path changed."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

SearchPath = tuple[tuple[str, float], ...]


def search_path() -> SearchPath:
    """The folders that Python searches, each with the time of its last change: installing something changes it."""
    return tuple([(path, _changed(path)) for path in sys.path])


@lru_cache(maxsize=1)
def entries(path: SearchPath) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of all packages on a search path, which is the one of now, by their groups."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in found.groups}


def is_installed(*packages: str) -> bool:
    """Whether all of these packages can be imported; nothing is imported for it."""
    return _are_found(packages, search_path())


@lru_cache(maxsize=64)
def _are_found(packages: tuple[str, ...], path: SearchPath) -> bool:
    return all(find_spec(package) is not None for package in packages)


def _changed(path: str) -> float:
    try:
        return Path(path or ".").stat().st_mtime
    except OSError:
        return 0.0
