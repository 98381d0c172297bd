"""Answers `prompts/list`, `prompts/get` and `completion/complete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext

from pilotage.adapters.mcp_server.callers import principal_of
from pilotage.adapters.mcp_server.content import blocks_of
from pilotage.adapters.mcp_server.errors import unknown
from pilotage.adapters.mcp_server.offers import McpPrompt, called
from pilotage.agent.principal import Principal
from pilotage.inbound.problems import RequestRefusedError

Context: TypeAlias = ServerRequestContext[Any, Any]
_MOST = 100


class Prompts:
    """The prompts of an application."""

    def __init__(self, prompts: Sequence[McpPrompt]) -> None:
        self._prompts = {each.name: each for each in prompts}

    async def list(
        self, context: Context, params: types.PaginatedRequestParams, principal: Principal
    ) -> types.ListPromptsResult:
        """Return all prompts."""
        return types.ListPromptsResult(prompts=[_listed(each) for each in self._prompts.values()])

    async def get(
        self, context: Context, params: types.GetPromptRequestParams, principal: Principal
    ) -> types.GetPromptResult:
        """Return the messages of a prompt.

        Raises:
            MCPError: there is no such prompt.
            RequestRefusedError: the arguments do not fit.
        """
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise unknown("prompt", params.name)
        arguments = params.arguments or {}
        _check(prompt, arguments)
        given = await called(prompt.render, arguments, principal_of(context, principal))
        messages = [types.PromptMessage(role="user", content=each) for each in blocks_of(given)]
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def complete(
        self, context: Context, params: types.CompleteRequestParams, principal: Principal
    ) -> types.CompleteResult:
        """Return the choices of an argument that begin like its value; none where any text fits."""
        prompt = self._prompts.get(params.ref.name) if isinstance(params.ref, types.PromptReference) else None
        choices = prompt.choices(params.argument.name) if prompt is not None else ()
        found = [each for each in choices if each.startswith(params.argument.value)]
        completion = types.Completion(values=found[:_MOST], total=len(found), has_more=len(found) > _MOST)
        return types.CompleteResult(completion=completion)


def _listed(prompt: McpPrompt) -> types.Prompt:
    arguments = [types.PromptArgument(name=each, required=each in prompt.required) for each in prompt.hints]
    return types.Prompt(name=prompt.name, description=prompt.description, arguments=arguments or None)


def _check(prompt: McpPrompt, arguments: dict[str, str]) -> None:
    missing = sorted(prompt.required - arguments.keys())
    foreign = sorted(arguments.keys() - prompt.hints.keys())
    if missing or foreign:
        wanted = ", ".join(map(repr, prompt.hints)) or "nothing"
        raise RequestRefusedError(
            f"prompt {prompt.name!r} takes {wanted}. Send each required one, and no other."
        )
    for name, text in arguments.items():
        if (choices := prompt.choices(name)) and text not in choices:
            raise RequestRefusedError(f"prompt {prompt.name!r}: {name!r} is one of {', '.join(choices)}.")
