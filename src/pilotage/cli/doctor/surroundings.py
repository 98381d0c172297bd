"""Looking at Python, the installed extras, the variables of the environment and the plugins."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution, requires

from pilotage.adapters.openai import environment as model
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.adapters.sealing import settings as sealing
from pilotage.adapters.sqlalchemy import settings as database
from pilotage.cli import configured
from pilotage.cli.doctor.finding import Finding, note, off, well
from pilotage.cli.main import own_version
from pilotage.container.application import Application
from pilotage.container.plugins import (
    Extension,
    installed_contributions,
    installed_plugins,
    select_contributions,
)
from pilotage.errors import PluginError

_PREFIX = "PILOTAGE_"
# A requirement of an extra as package metadata has it: httpx>=0.28; extra == 'openai'
_OF_EXTRA = re.compile(r"(?P<package>[\w.-]+).*;.*\bextra == ['\"](?P<extra>[\w-]+)['\"]")
_KNOWN = frozenset(
    {
        *(configured.APP, configured.TENANT, configured.AS),
        *(database.URL, database.POOL_SIZE, database.TIMEOUT_SECONDS),
        *(database.UPGRADES_AT_START, database.MAY_LOSE_COMMITS),
        *(BASE_URL, model.NAME, model.API_KEY, model.SERVER),
        *(sealing.KEY_FILE, sealing.OLD_KEY_FILES),
    }
)
# Closer than this is a slip of the hand; what is farther away may be a variable of somebody else.
_SLIP = 0.9


def look_at_versions() -> Finding:
    """Which Pilotage and which Python."""
    return well("pilotage", f"{own_version()}, Python {platform.python_version()}")


def look_at_extras() -> Finding:
    """Which extras are there."""
    needs = packages_of_extras(requires("pilotage") or ())
    missing = [extra for extra, packages in needs.items() if not all(map(_is_installed, packages))]
    if not missing:
        return well("extras", "all of them are installed")
    there = ", ".join(extra for extra in needs if extra not in missing)
    words = f"installed: {there}; not installed: {', '.join(missing)}"
    return note("extras", words, f'pip install "pilotage[{missing[0]}]"')


def packages_of_extras(requirements: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The packages that each extra needs. Pure."""
    needs: dict[str, list[str]] = {}
    for found in filter(None, map(_OF_EXTRA.match, requirements)):
        needs.setdefault(found["extra"], []).append(found["package"])
    return needs


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def look_at_variables(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Variables that look like ours and are not: nobody would read them."""
    ours = [name for name in environ if name.startswith(_PREFIX) and name not in _KNOWN]
    for name in sorted(ours):
        for meant in get_close_matches(name, _KNOWN, n=1, cutoff=_SLIP):
            yield off("settings", f"{name} is set, and nobody reads it.", f"Did you mean {meant}?")


def look_at_plugins() -> list[Finding]:
    """Whether each installed plugin and contribution can be loaded."""
    app = Application("doctor")
    try:
        plugins, contributions = installed_plugins(), installed_contributions()
    except PluginError as error:
        return [off("plugins", error)]
    failures = {each.name: failure for each in plugins if (failure := _failure(each, app)) is not None}
    loaded = [each.name for each in plugins if each.name not in failures]
    added = select_contributions(contributions, loaded).chosen
    failed = [*failures.values(), *filter(None, (_failure(each, app) for each in added))]
    return [*failed, well("plugins", ", ".join(loaded) or "none")]


def _failure(extension: Extension, app: Application) -> Finding | None:
    try:
        extension.load(app)
    except PluginError as error:
        return off("plugins", error)
    return None
