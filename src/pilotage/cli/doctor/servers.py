"""Looking at the database and at the model's server, as the environment names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

from pilotage.adapters.openai.environment import NAME, settings_from_environment
from pilotage.adapters.openai.errors import ModelServerError
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.server_facts import capability_with
from pilotage.adapters.openai.settings import ModelTimeouts, OpenAICompatibleSettings
from pilotage.adapters.openai.vllm_settings import VllmSettings
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.adapters.sealing.key_file import KeyFileError, read_key_file
from pilotage.adapters.sealing.settings import SealingSettings
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings, shown, sqlite_file
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.cli.doctor.finding import Finding, note, off, well
from pilotage.cli.opening import database_of
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, StartupError

_PATIENCE = 5.0
_INSTALL = 'pip install "pilotage[openai]"'


def look_at_database(app: Application | None) -> Finding:
    """Whether runs could be kept, in the application's database or that of the environment; looking makes nothing."""
    if find_spec("sqlalchemy") is None:
        return note("database", "runs cannot be kept", 'pip install "pilotage[sqlalchemy]"')
    try:
        own = database_of(app) if app is not None else None
        settings = own or DatabaseSettings.from_environment()
    except StartupError as error:
        return off("database", error)
    file = sqlite_file(settings.url)
    if file is not None and not file.exists() and settings.upgrades_at_start:
        return well("database", f"{shown(settings.url)}: none yet, it is made when a run is to be kept")
    return _opened(replace(settings, timeout_seconds=min(settings.timeout_seconds, _PATIENCE)))


def _opened(settings: DatabaseSettings) -> Finding:
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - slow to load

    from pilotage.adapters.sqlalchemy.database import Database  # noqa: PLC0415
    from pilotage.adapters.sqlalchemy.schema import VERSION, check_schema, unreachable  # noqa: PLC0415

    try:
        database = Database(settings)
    except StartupError as error:
        return off("database", error)
    try:
        may_lose = settings.may_lose_commits_on_power_failure
        database.engines.check_durability(may_lose_commits=may_lose)
        check_schema(database)
    except StartupError as error:
        return off("database", error)
    except DBAPIError as error:
        return off("database", unreachable(shown(settings.url), error))
    finally:
        database.close()
    return well("database", f"{database.name}: tables of version {VERSION}, durable")


def look_at_key() -> Iterator[Finding]:
    """Whether the key that is named opens and seals."""
    settings = SealingSettings.from_environment()
    for path in (settings.key_file, *settings.old_key_files) if settings is not None else ():
        try:
            yield well("key", f"{path}: key {read_key_file(path).id}")
        except KeyFileError as error:
            yield off("key", error)


async def look_at_model(app: Application | None) -> Finding:
    """Whether the model's server, the application's or that of the environment, is there and serves the model."""
    try:
        settings = _settings_of(app) or settings_from_environment()
    except AgentDefinitionError as error:
        return off("model", error)
    if settings is not None and find_spec("httpx") is None:
        return off("model", "a model server is named, and its adapter is not installed.", _INSTALL)
    if settings is not None:
        return await _asked(settings.server if isinstance(settings, VllmSettings) else settings)
    if app is not None and app.contains(IAgentModel):
        names = ", ".join(node.label for node in app.graph.providers(IAgentModel))
        return well("model", f"{names}, of application {app.name!r}")
    words = "no server is named: pilotage run takes the offline model, an application needs one of its own"
    return note("model", words, f"export {BASE_URL}=http://127.0.0.1:8000/v1 {NAME}=...")


def _settings_of(app: Application | None) -> OpenAICompatibleSettings | VllmSettings | None:
    if app is None:
        return None
    return app.graph.given(OpenAICompatibleSettings) or app.graph.given(VllmSettings)


async def _asked(settings: OpenAICompatibleSettings) -> Finding:
    patient = replace(
        settings, timeouts=ModelTimeouts(connect=_PATIENCE, first_token=_PATIENCE, request=_PATIENCE)
    )
    model = OpenAICompatibleModel(patient)
    try:
        capability = capability_with(ModelCapability(settings.model), await model.served_models())
    except (ModelServerError, AgentDefinitionError) as error:
        return off("model", f"{settings.base_url}: {error}")
    finally:
        await model.aclose()
    length = f", context of {capability.context_tokens} tokens" if capability.context_tokens else ""
    return well("model", f"{settings.base_url} serves {settings.model}{length}")
