"""`pilotage doctor`: check everything an application depends on, with a remedy for each problem."""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from importlib.util import find_spec

from pilotage.adapters.openai import settings as model
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.adapters.sealing import key_file as sealing
from pilotage.adapters.sqlalchemy import settings as database
from pilotage.agent.tools.definition_text import visible
from pilotage.cli.application import ChosenApplication, chosen_application, database_of
from pilotage.cli.exit_codes import TRACEBACK
from pilotage.cli.handlers.doctor_model import look_at_model
from pilotage.cli.handlers.findings import (
    Finding,
    code_of_findings,
    finding_json,
    finding_lines,
    note,
    off,
    well,
)
from pilotage.cli.handlers.storage import checked, opened
from pilotage.cli.mcp_servers import Server, has_servers, with_servers
from pilotage.cli.options import AS, TENANT
from pilotage.cli.screen import Screen
from pilotage.cli.target import APP
from pilotage.cli.timeline import count_words
from pilotage.container.application import Application
from pilotage.container.plugins import (
    Extension,
    installed_contributions,
    installed_plugins,
    select_contributions,
)
from pilotage.errors import PilotageError, PluginError, StartupError
from pilotage.models.plugin import MODEL

_PREFIX = "PILOTAGE_"
# A requirement of an extra as package metadata has it: httpx>=0.28; extra == 'openai'
_OF_EXTRA = re.compile(r"(?P<package>[\w.-]+).*;.*\bextra == ['\"](?P<extra>[\w-]+)['\"]")
_KNOWN = frozenset(
    {
        *(APP, TENANT, AS, TRACEBACK),
        *(database.URL, database.POOL_SIZE, database.TIMEOUT_SECONDS),
        *(database.UPGRADES_AT_START, database.MAY_LOSE_COMMITS),
        *(MODEL, BASE_URL, model.NAME, model.API_KEY, model.SERVER),
        *(sealing.KEY_FILE, sealing.OLD_KEY_FILES),
    }
)
# Closer than this is a typing error; a name farther away may belong to another program.
_SIMILARITY = 0.9
_TIMEOUT_SECONDS = 5.0


def examine(option: str | None, *, as_json: bool) -> int:
    """Check everything and show the findings; return 1 if there is a problem."""
    chosen, why_not = _chosen(option)
    app = chosen.app if chosen is not None else None
    findings = [
        look_at_versions(),
        look_at_extras(),
        *look_at_variables(),
        *look_at_plugins(),
        look_at_database(app),
        *look_at_key(),
        asyncio.run(look_at_model(app)),
        *look_at_mcp_servers(app),
        *([why_not] if why_not is not None else look_at_application(app)),
    ]
    Screen.of_process().answer(
        [finding_json(each) for each in findings], *finding_lines(findings), as_json=as_json
    )
    return code_of_findings(findings)


def look_at_mcp_servers(app: Application | None) -> Iterator[Finding]:
    """Return whether the MCP servers of the application can be used, and which of their tools are off."""
    if app is None or not has_servers(app):
        return

    async def looked(server: Server) -> Finding:
        review = server.review
        words = f"{server.name}: {count_words(len(review.offered), 'tool')} on offer"
        if not review.off:
            return well("mcp", words)
        listed = ", ".join(f"{visible(each.name)} ({each.standing.value})" for each in review.off)
        return note("mcp", f"{words}; off: {listed}", f"pilotage mcp diff {server.name}")

    for found in asyncio.run(with_servers(app, (), looked)):
        yield found if isinstance(found, Finding) else off("mcp", found.problem)


def look_at_application(app: Application | None) -> Iterator[Finding]:
    """Return everything that keeps the application from starting, without starting it."""
    if app is None:
        yield note("application", "none is named", f"Name it: --app MODULE:NAME, or {APP}.")
        return
    problems = app.problems()
    for each in problems:
        yield off("application", f"{app.name}: {each}")
    if not problems:
        yield well("application", f"{app.name}: no problems")


def _chosen(option: str | None) -> tuple[ChosenApplication | None, Finding | None]:
    """Return the application, or why it cannot be loaded."""
    try:
        return chosen_application(option), None
    except PilotageError as error:
        return None, off("application", error)


def look_at_versions() -> Finding:
    """Return the versions of Pilotage and Python."""
    return well("pilotage", f"{version('pilotage')}, Python {platform.python_version()}")


def look_at_extras() -> Finding:
    """Return which extras are installed."""
    needs = packages_of_extras(requires("pilotage") or ())
    missing = [extra for extra, packages in needs.items() if not all(map(_is_installed, packages))]
    if not missing:
        return well("extras", "all of them are installed")
    there = ", ".join(extra for extra in needs if extra not in missing)
    words = f"installed: {there}; not installed: {', '.join(missing)}"
    return note("extras", words, f'pip install "pilotage[{missing[0]}]"')


def packages_of_extras(requirements: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the packages that each extra needs. Pure."""
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
    """Return variables with a typing error in their name: nothing reads them."""
    ours = [name for name in environ if name.startswith(_PREFIX) and name not in _KNOWN]
    for name in sorted(ours):
        for meant in get_close_matches(name, _KNOWN, n=1, cutoff=_SIMILARITY):
            yield off("settings", f"{name} is set, and nothing reads it.", f"Did you mean {meant}?")


def look_at_plugins() -> list[Finding]:
    """Return whether each installed plugin and contribution can be loaded."""
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
    except StartupError as error:
        return off("settings", error)
    return None


def look_at_database(app: Application | None) -> Finding:
    """Return whether runs can be stored, in the application's database or that of the environment; nothing is made."""
    if find_spec("sqlalchemy") is None:
        return note("database", "durable runs cannot be stored", 'pip install "pilotage[sqlalchemy]"')
    try:
        own = database_of(app) if app is not None else None
        settings = own or database.DatabaseSettings.from_environment()
    except StartupError as error:
        return off("database", error)
    file = database.sqlite_file(settings.url)
    if file is not None and not file.exists() and settings.upgrades_at_start:
        return well("database", f"{database.shown(settings.url)}: made by the first durable run")
    limited = replace(settings, timeout_seconds=min(settings.timeout_seconds, _TIMEOUT_SECONDS))
    try:
        with opened(limited) as found:
            return well("database", checked(found))
    except StartupError as error:
        return off("database", error)


def look_at_key() -> Iterator[Finding]:
    """Return whether the named keys can be read."""
    settings = sealing.SealingSettings.from_environment()
    for path in (settings.key_file, *settings.old_key_files) if settings is not None else ():
        try:
            yield well("key", f"{path}: key {sealing.read_key_file(path).id}")
        except sealing.KeyFileError as error:
            yield off("key", error)
