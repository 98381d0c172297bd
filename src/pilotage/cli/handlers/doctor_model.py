"""The doctor's look at the model: whether its server serves it, which wires it speaks, and whose key it gets."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import TypeAlias
from urllib.parse import urlsplit

from pilotage.adapters.anthropic.model import AnthropicModel
from pilotage.adapters.anthropic.settings import AnthropicSettings
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.server import ModelTimeouts
from pilotage.adapters.model_http.wires import MODELS, wrong_provider
from pilotage.adapters.openai import settings as model
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.responses_model import OpenAIResponsesModel
from pilotage.adapters.openai.served_models import capability_with
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.cli.handlers.findings import Finding, note, off, well
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError
from pilotage.models.named import named_model
from pilotage.models.plugin import MODEL

_SECONDS = 5.0
_LIMITS = ModelTimeouts(connect=_SECONDS, first_token=_SECONDS, request=_SECONDS)
_INSTALL = 'pip install "pilotage[openai]"'
ServedModel: TypeAlias = OpenAICompatibleModel | AnthropicModel


async def look_at_model(app: Application | None) -> Finding:
    """Return whether the model's server, the application's or that of the environment, serves the model."""
    try:
        served = (_of_application(app) if app is not None else None) or _of_environment()
    except AgentDefinitionError as error:
        return off("model", error)
    if served is not None and find_spec("httpx") is None:
        return off("model", "a model server is named, and its adapter is not installed.", _INSTALL)
    if served is not None:
        return await _asked(served)
    if app is not None and app.contains(IAgentModel):
        names = ", ".join(node.label for node in app.graph.providers(IAgentModel))
        return well("model", f"{names}, of application {app.name!r}")
    words = (
        f"{BASE_URL} is not set: an agent without an application runs with the offline model, an application needs "
        "a model of its own"
    )
    return note("model", words, f"export {BASE_URL}=http://127.0.0.1:8000/v1 {model.NAME}=...")


def _of_application(app: Application) -> ServedModel | None:
    given = app.graph.given
    found = given(OpenAICompatibleModel) or given(AnthropicModel)
    if found is not None:
        return _limited(found)
    if (compatible := given(model.OpenAICompatibleSettings)) is not None:
        return _limited(OpenAICompatibleModel(compatible))
    if (vllm := given(model.VllmSettings)) is not None:
        return _limited(OpenAICompatibleModel(vllm.server))
    messages = given(AnthropicSettings)
    return None if messages is None else _limited(AnthropicModel(messages))


def _of_environment() -> ServedModel | None:
    if name := os.environ.get(MODEL, "").strip():
        named = named_model(name)
        return _limited(named) if isinstance(named, OpenAICompatibleModel | AnthropicModel) else None
    settings = model.settings_from_environment()
    if settings is None:
        return None
    return _limited(
        OpenAICompatibleModel(settings.server if isinstance(settings, model.VllmSettings) else settings)
    )


def _limited(found: ServedModel) -> ServedModel:
    """Return a model of the same server, with short time limits."""
    if isinstance(found, AnthropicModel):
        return AnthropicModel(replace(found.settings, timeouts=_LIMITS))
    is_responses = isinstance(found, OpenAIResponsesModel)
    kind = OpenAIResponsesModel if is_responses else OpenAICompatibleModel
    return kind(replace(found.settings, timeouts=_LIMITS))


async def _asked(served: ServedModel) -> Finding:
    settings = served.settings
    try:
        length = await _length_of_context(served)
        wires = await served.spoken_wires()
    except (ModelServerError, AgentDefinitionError) as error:
        is_key = isinstance(error, ModelServerError) and error.failure is ModelFailure.UNAUTHORIZED
        why = wrong_provider(settings.api_key, urlsplit(settings.base_url).hostname) if is_key else None
        words = f"{settings.base_url}: {error}"
        return off("model", words, f"The {why[4:]}." if why else "")
    finally:
        await served.aclose()
    spoken = ", ".join(wires) or "no wire that Pilotage knows"
    if served.wire not in wires:
        remedy = f"Use {' or '.join(MODELS[each] for each in wires)}." if wires else ""
        words = f"{settings.base_url} does not speak {served.wire.value}. It speaks {spoken}"
        return off("model", words, remedy)
    words = f"{settings.base_url} serves {settings.model}{length}; it speaks {spoken}"
    return well("model", words)


async def _length_of_context(served: ServedModel) -> str:
    if isinstance(served, AnthropicModel):
        return ""
    models = await served.served_models()
    capability = capability_with(ModelCapability(served.settings.model), models)
    return f", context of {capability.context_tokens} tokens" if capability.context_tokens else ""
