"""`pilotage doctor`: looks at everything an application depends on, and says what to do about what is off."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec

from pilotage.adapters.openai import settings as model
from pilotage.adapters.openai.errors import ModelServerError
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.server import capability_with
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.adapters.sealing import settings as sealing
from pilotage.adapters.sealing.key_file import KeyFileError, read_key_file
from pilotage.adapters.sqlalchemy import settings as database
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.cli.application import Chosen, chosen_application, database_of
from pilotage.cli.asked import AS, TENANT
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.main import own_version
from pilotage.cli.screen import Screen
from pilotage.cli.target import APP
from pilotage.cli.words import Line, TextSpan, Tone, cleaned, columns, line
from pilotage.cli.work.database import checked, opened
from pilotage.container.application import Application
from pilotage.container.plugins import (
    Extension,
    installed_contributions,
    installed_plugins,
    select_contributions,
)
from pilotage.errors import AgentDefinitionError, PilotageError, PluginError, StartupError
from pilotage.jsonvalue import JsonObject
from pilotage.values import value

_PREFIX = "PILOTAGE_"
# A requirement of an extra as package metadata has it: httpx>=0.28; extra == 'openai'
_OF_EXTRA = re.compile(r"(?P<package>[\w.-]+).*;.*\bextra == ['\"](?P<extra>[\w-]+)['\"]")
_KNOWN = frozenset(
    {
        *(APP, TENANT, AS),
        *(database.URL, database.POOL_SIZE, database.TIMEOUT_SECONDS),
        *(database.UPGRADES_AT_START, database.MAY_LOSE_COMMITS),
        *(BASE_URL, model.NAME, model.API_KEY, model.SERVER),
        *(sealing.KEY_FILE, sealing.OLD_KEY_FILES),
    }
)
# Closer than this is a slip of the hand; what is farther away may be a variable of somebody else.
_SLIP = 0.9
_PATIENCE = 5.0
_INSTALL = 'pip install "pilotage[openai]"'


class Health(StrEnum):
    """Whether something is to be done."""

    WELL = "well"
    NOTE = "note"
    OFF = "off"


@value
class Finding:
    """One thing that was looked at: how it is, and the way out where it is off."""

    what: str
    health: Health
    words: str
    remedy: str = ""


_MARKS = {
    Health.WELL: TextSpan("✓", Tone.GOOD),
    Health.NOTE: TextSpan("·", Tone.QUIET),
    Health.OFF: TextSpan("✗", Tone.BAD),
}


def well(what: str, words: str) -> Finding:
    """All is well."""
    return Finding(what, Health.WELL, words)


def note(what: str, words: str, remedy: str = "") -> Finding:
    """Good to know; whether it is meant to be so, only the reader knows."""
    return Finding(what, Health.NOTE, words, remedy)


def off(what: str, words: object, remedy: str = "") -> Finding:
    """Something is to be done."""
    return Finding(what, Health.OFF, str(words), remedy)


def finding_lines(findings: Sequence[Finding]) -> list[Line]:
    """All findings, one below the other, with what to do."""
    lines: list[Line] = []
    names = columns(
        [[_MARKS[each.health], TextSpan(each.what, Tone.STRONG), TextSpan("")] for each in findings]
    )
    for name, each in zip(names, findings, strict=True):
        first, *rest = cleaned(each.words).splitlines() or [""]
        indent = " " * sum(len(span.text) for span in name)
        lines.append((*name, TextSpan(first)))
        lines += [line(indent, more) for more in rest]
        if each.remedy:
            lines.append(line(indent, TextSpan(cleaned(each.remedy), Tone.NAME)))
    return lines


def finding_json(finding: Finding) -> JsonObject:
    """A finding for programs."""
    return {
        "what": finding.what,
        "health": finding.health.value,
        "words": finding.words,
        "remedy": finding.remedy,
    }


def code_of_findings(findings: Iterable[Finding]) -> ExitCode:
    """Whether something is off."""
    is_off = any(each.health is Health.OFF for each in findings)
    return ExitCode.WRONG if is_off else ExitCode.DONE


async def examine(option: str | None, *, as_json: bool) -> int:
    """Look at everything, say what was found; 1 if something is off."""
    chosen, why_not = _chosen(option)
    app = chosen.app if chosen is not None else None
    findings = [
        look_at_versions(),
        look_at_extras(),
        *look_at_variables(),
        *look_at_plugins(),
        look_at_database(app),
        *look_at_key(),
        await look_at_model(app),
        *([why_not] if why_not is not None else look_at_application(app)),
    ]
    Screen.of_process().answer(
        [finding_json(each) for each in findings], *finding_lines(findings), as_json=as_json
    )
    return code_of_findings(findings)


def look_at_application(app: Application | None) -> Iterator[Finding]:
    """Everything that keeps the application from starting, without starting it."""
    if app is None:
        yield note("application", "none is named", f"Name it: --app MODULE:NAME, or {APP}.")
        return
    problems = app.problems()
    for each in problems:
        yield off("application", f"{app.name}: {each}")
    if not problems:
        yield well("application", f"{app.name}: no problems")


def _chosen(option: str | None) -> tuple[Chosen | None, Finding | None]:
    """The application, or why it cannot be looked at."""
    try:
        return chosen_application(option), None
    except PilotageError as error:
        return None, off("application", error)


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


def look_at_database(app: Application | None) -> Finding:
    """Whether runs could be kept, in the application's database or that of the environment; looking makes nothing."""
    if find_spec("sqlalchemy") is None:
        return note("database", "runs cannot be kept", 'pip install "pilotage[sqlalchemy]"')
    try:
        own = database_of(app) if app is not None else None
        settings = own or database.DatabaseSettings.from_environment()
    except StartupError as error:
        return off("database", error)
    file = database.sqlite_file(settings.url)
    if file is not None and not file.exists() and settings.upgrades_at_start:
        return well(
            "database", f"{database.shown(settings.url)}: none yet, it is made when a run is to be kept"
        )
    patient = replace(settings, timeout_seconds=min(settings.timeout_seconds, _PATIENCE))
    try:
        with opened(patient) as found:
            return well("database", checked(found))
    except StartupError as error:
        return off("database", error)


def look_at_key() -> Iterator[Finding]:
    """Whether the key that is named opens and seals."""
    settings = sealing.SealingSettings.from_environment()
    for path in (settings.key_file, *settings.old_key_files) if settings is not None else ():
        try:
            yield well("key", f"{path}: key {read_key_file(path).id}")
        except KeyFileError as error:
            yield off("key", error)


async def look_at_model(app: Application | None) -> Finding:
    """Whether the model's server, the application's or that of the environment, is there and serves the model."""
    try:
        settings = _settings_of(app) or model.settings_from_environment()
    except AgentDefinitionError as error:
        return off("model", error)
    if settings is not None and find_spec("httpx") is None:
        return off("model", "a model server is named, and its adapter is not installed.", _INSTALL)
    if settings is not None:
        return await _asked(settings.server if isinstance(settings, model.VllmSettings) else settings)
    if app is not None and app.contains(IAgentModel):
        names = ", ".join(node.label for node in app.graph.providers(IAgentModel))
        return well("model", f"{names}, of application {app.name!r}")
    words = "no server is named: pilotage run takes the offline model, an application needs one of its own"
    return note("model", words, f"export {BASE_URL}=http://127.0.0.1:8000/v1 {model.NAME}=...")


def _settings_of(app: Application | None) -> model.OpenAICompatibleSettings | model.VllmSettings | None:
    if app is None:
        return None
    return app.graph.given(model.OpenAICompatibleSettings) or app.graph.given(model.VllmSettings)


async def _asked(settings: model.OpenAICompatibleSettings) -> Finding:
    patient = replace(
        settings, timeouts=model.ModelTimeouts(connect=_PATIENCE, first_token=_PATIENCE, request=_PATIENCE)
    )
    asked = OpenAICompatibleModel(patient)
    try:
        capability = capability_with(ModelCapability(settings.model), await asked.served_models())
    except (ModelServerError, AgentDefinitionError) as error:
        return off("model", f"{settings.base_url}: {error}")
    finally:
        await asked.aclose()
    length = f", context of {capability.context_tokens} tokens" if capability.context_tokens else ""
    return well("model", f"{settings.base_url} serves {settings.model}{length}")
