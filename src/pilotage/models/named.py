"""Models by name: `anthropic:NAME`, `openai:NAME`, `vllm:NAME`, and those that installed packages add.

A package registers `PREFIX = "module:function"` under the entry point group `pilotage.models`. The function gets the
name of the model and an address or None, and returns the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint

from pilotage.agent.ports.model import IAgentModel
from pilotage.container.plugins import entries, search_path
from pilotage.errors import AgentDefinitionError

NAMES = "pilotage.models"
_EXTRAS = {"anthropic": "anthropic", "openai": "openai", "chat": "openai", "vllm": "openai"}


def named_model(name: str) -> IAgentModel:
    """Return the model of a name such as `anthropic:NAME`, or `vllm:NAME@http://127.0.0.1:8000/v1`.

    Raises:
        AgentDefinitionError: no installed package knows the provider, its extra or its key is missing, or the address
            is none.
    """
    return model_of(name, entries(search_path()).get(NAMES, ()))


def model_of(name: str, installed: Iterable[EntryPoint]) -> IAgentModel:
    """Return the model of a name, made by one of the installed packages.

    Raises:
        AgentDefinitionError: none of them knows the provider, or it cannot make the model.
    """
    known = {entry.name: entry for entry in installed}
    provider, mark, rest = name.partition(":")
    model, _, address = rest.partition("@http")
    if not mark or not model.strip() or provider not in known:
        names = ", ".join(f"{each}:NAME" for each in sorted(known)) or "none"
        raise AgentDefinitionError(
            f"{name!r} is no name of a model. Known are: {names}. Name one of them, or hand over a model."
        )
    try:
        make: Callable[[str, str | None], IAgentModel] = known[provider].load()
        return make(model.strip(), f"http{address}" if address else None)
    except ImportError as error:
        extra = _EXTRAS.get(provider, provider)
        raise AgentDefinitionError(
            f'the model {name!r} needs an extra: pip install "pilotage[{extra}]".'
        ) from error
