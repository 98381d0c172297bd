"""Plugins and contributions: what installed packages add to an application, found by entry points.

A plugin is an entry point of the group `pilotage.plugins`; its function is called with the application.
A contribution is what one plugin (the provider) adds to another (the feature): an entry point of the group
`pilotage.contributions.<feature>` with the provider's name. It is loaded only if both plugins are active.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from pilotage.container.describe import Skipped, StartupReport
from pilotage.container.names import enumerate_names
from pilotage.errors import PluginError, StartupError
from pilotage.values import value

SearchPath = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
PLUGINS = "pilotage.plugins"
CONTRIBUTIONS = "pilotage.contributions."
_METADATA = (".dist-info", ".egg-info")


def search_path() -> SearchPath:
    """Return the folders that Python searches, each with the packages that are installed there."""
    return tuple([(path, _installed_in(path, _changed(path))) for path in sys.path])


@lru_cache(maxsize=256)
def _installed_in(path: str, changed: float) -> tuple[tuple[str, float], ...]:
    """Return the metadata of packages in a folder, by name and time: files of an application come and go beside it."""
    try:
        with os.scandir(path or ".") as entries:
            found = [each for each in entries if each.name.endswith(_METADATA)]
            return tuple(sorted((each.name, each.stat().st_mtime) for each in found))
    except OSError:  # an archive, or a folder that does not exist
        return (("", changed),)


@lru_cache(maxsize=1)
def entries(path: SearchPath) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of all packages by their groups; the search path is the key of the cache."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in found.groups}


def is_installed(*packages: str) -> bool:
    """Return whether all of these packages can be imported, without importing them."""
    return _are_found(packages, search_path())


@lru_cache(maxsize=64)
def _are_found(packages: tuple[str, ...], path: SearchPath) -> bool:
    return all(find_spec(package) is not None for package in packages)


def _changed(path: str) -> float:
    try:
        return Path(path or ".").stat().st_mtime
    except OSError:
        return 0.0


@value
class Extension:
    """An installed plugin or contribution, not imported yet."""

    title: str
    name: str
    feature: str
    entry: EntryPoint

    def load(self, app: object) -> None:
        """Import it and call it with the application; its own start-up errors are raised as they are."""
        try:
            initialize: Callable[[object], object] = self.entry.load()
            initialize(app)
        except StartupError as error:  # a wrong setting; its message says what to do
            error.add_note(f"Found by the {self.title} ({self.entry.value}).")
            raise
        except Exception as error:
            raise PluginError(
                f"The {self.title} ({self.entry.value}) failed: {type(error).__name__}: {error}. "
                f'Fix or upgrade it, or leave it out: load_plugins(exclude=["{self.name}"]).'
            ) from error


@value
class Selection:
    """Extensions to load, in order, and the reasons why the others are not."""

    chosen: tuple[Extension, ...]
    skipped: tuple[Skipped, ...]


def load_plugins(
    app: object, report: StartupReport, include: Collection[str] | None, exclude: Collection[str]
) -> None:
    """Load the active plugins, then the contributions between them; each is loaded once."""
    with report.phase("plugins"):
        plugins = installed_plugins()
        selected = select_plugins(plugins, include, exclude)
        _load(selected.chosen, app, report)
    active = {plugin.name for plugin in plugins if plugin.title in report.loaded}
    with report.phase("contributions"):
        contributions = select_contributions(installed_contributions(), active)
        _load(contributions.chosen, app, report)
    report.skipped = [s for s in (*selected.skipped, *contributions.skipped) if s.name not in report.loaded]


def installed_plugins() -> tuple[Extension, ...]:
    """Return all installed plugins by name."""
    return _plugins_on(search_path())


def installed_contributions() -> tuple[Extension, ...]:
    """Return all installed contributions by feature, then by provider."""
    return _contributions_on(search_path())


def select_plugins(
    installed: Sequence[Extension], include: Collection[str] | None, exclude: Collection[str]
) -> Selection:
    """Decide which plugins are active; raise `PluginError` if a name is not installed."""
    _refuse_unknown("include", include or (), installed)
    _refuse_unknown("exclude", exclude, installed)

    def why_not(plugin: Extension) -> str | None:
        if plugin.name in exclude:
            return "excluded"
        return "not included" if include is not None and plugin.name not in include else None

    return _select(installed, why_not)


def select_contributions(installed: Sequence[Extension], active: Collection[str]) -> Selection:
    """Decide which contributions are loaded: those whose feature and provider are both active."""

    def why_not(contribution: Extension) -> str | None:
        absent = [repr(n) for n in (contribution.feature, contribution.name) if n not in active]
        if not absent:
            return None
        return f"{'plugins' if absent[1:] else 'plugin'} {enumerate_names(absent)} not active"

    return _select(installed, why_not)


def _select(installed: Sequence[Extension], why_not: Callable[[Extension], str | None]) -> Selection:
    reasons = [(extension, why_not(extension)) for extension in installed]
    return Selection(
        chosen=tuple(extension for extension, reason in reasons if reason is None),
        skipped=tuple(
            Skipped(extension.title, reason) for extension, reason in reasons if reason is not None
        ),
    )


def _load(extensions: Iterable[Extension], app: object, report: StartupReport) -> None:
    for extension in extensions:
        if extension.title not in report.loaded:
            extension.load(app)
            report.loaded.append(extension.title)


@lru_cache(maxsize=1)
def _plugins_on(path: SearchPath) -> tuple[Extension, ...]:
    found = entries(path).get(PLUGINS, ())
    return _unique(Extension(f"plugin {e.name!r}", e.name, e.name, e) for e in found)


@lru_cache(maxsize=1)
def _contributions_on(path: SearchPath) -> tuple[Extension, ...]:
    groups = [group for group in sorted(entries(path)) if group.startswith(CONTRIBUTIONS)]
    return tuple(each for group in groups for each in _contributions(group, entries(path)[group]))


def _contributions(group: str, found: Iterable[EntryPoint]) -> tuple[Extension, ...]:
    feature = group.removeprefix(CONTRIBUTIONS)
    return _unique(Extension(f"contribution of {e.name!r} to {feature!r}", e.name, feature, e) for e in found)


def _unique(extensions: Iterable[Extension]) -> tuple[Extension, ...]:
    """Return the extensions sorted by name; raise `PluginError` if two packages use one name."""
    found: dict[str, Extension] = {}
    for extension in sorted(extensions, key=lambda extension: (extension.name, extension.entry.value)):
        first = found.setdefault(extension.name, extension)
        if first.entry.value != extension.entry.value:
            raise PluginError(
                f"The {extension.title} is installed twice: {first.entry.value} and {extension.entry.value}. "
                "Uninstall one of the packages."
            )
    return tuple(found.values())


def _refuse_unknown(option: str, names: Collection[str], installed: Sequence[Extension]) -> None:
    known = [plugin.name for plugin in installed]
    for name in names:
        if name not in known:
            raise PluginError(
                f"load_plugins({option}=...): no plugin {name!r} is installed. "
                f"Installed are: {', '.join(known) or 'none'}."
            )
