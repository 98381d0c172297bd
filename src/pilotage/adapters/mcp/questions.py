"""Questions of a server during a call: answered by people, by a handler of the application, or refused by policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotage.adapters.mcp.catalog import why_not_schema
from pilotage.adapters.mcp.errors import McpRefusedError
from pilotage.adapters.mcp.settings import McpQuestion, McpServerSettings
from pilotage.agent.tools.definition_text import visible, visible_lines
from pilotage.errors import QuestionDeclinedError
from pilotage.jsonvalue import JsonObject, JsonValue, json_digest, object_or_empty, shortened
from pilotage.runtime import ask, step
from pilotage.values import value

_LONGEST_TEXT = 4_000
_DECLINED: JsonObject = {"action": "decline"}


@value
class AskedTool:
    """The tool during whose call a server asks: its name there, and for models."""

    name: str
    wire: str


class ToolQuestions:
    """Answers to what one server asks during the calls of one tool."""

    def __init__(self, settings: McpServerSettings, tool: AskedTool) -> None:
        self._settings, self._tool = settings, tool

    async def answers(self, requests: JsonObject) -> dict[str, JsonValue]:
        """Return the answers to the requests of a reply, by their keys.

        Raises:
            McpRefusedError: the server asks for what is not given, such as the reply of a model.
        """
        return {key: await self._answer(object_or_empty(requests[key])) for key in sorted(requests)}

    async def _answer(self, request: JsonObject) -> JsonObject:
        params = object_or_empty(request.get("params"))
        match request.get("method"):
            case "elicitation/create":
                return await self._elicited(params)
            case "roots/list":
                return {"roots": [{"uri": root} for root in self._settings.roots]}
            case "sampling/createMessage":
                raise McpRefusedError(
                    f"MCP server {self._settings.name!r} asks for the reply of a model (sampling) during "
                    f"{self._tool.name!r}, which is refused: its words would reach a model outside of every limit of "
                    "the run. Use a server with a model of its own."
                )
            case other:
                raise McpRefusedError(
                    f"MCP server {self._settings.name!r} asks for {shortened(str(other))!r}, which is not known."
                )

    async def _elicited(self, params: JsonObject) -> JsonObject:
        policy, question = self._settings.questions, self._question(params)
        if policy == "refuse":
            return _DECLINED
        try:
            if policy == "people":
                content = await ask(
                    self._tool.wire,
                    question.text,
                    question.schema,
                    reads_untrusted=self._settings.reads_untrusted,
                )
            else:
                content = await step(f"{self._tool.wire}.answered", lambda: policy(question))
        except QuestionDeclinedError:
            return _DECLINED
        if content is None and policy != "people":
            return _DECLINED
        if question.url is not None or not isinstance(content, Mapping):
            return {"action": "accept"}
        return {"action": "accept", "content": content}

    def _question(self, params: JsonObject) -> McpQuestion:
        """Return a question as a person sees it: who asks, and nothing in it that is invisible."""
        server, tool = self._settings.name, self._tool.name
        message = visible_lines(shortened(str(params.get("message", "")), _LONGEST_TEXT))
        url = params.get("url") if params.get("mode") == "url" else None
        schema = object_or_empty(params.get("requestedSchema"))
        if url is None and (why := why_not_schema(schema)) is not None:
            raise McpRefusedError(f"MCP server {server!r} asks with a schema that {why}. Nobody was asked.")
        text = f"MCP server {server!r} asks during {tool!r}: {message}"
        if url is not None:
            text = f"{text} Visit {visible(shortened(str(url), _LONGEST_TEXT))} and answer when that is done."
        return McpQuestion(
            server, tool, text, schema if url is None else {}, None if url is None else str(url)
        )


def by_question(requests: JsonObject, answers: Mapping[str, JsonValue]) -> dict[str, Mapping[str, Any]]:
    """Return answers by the digests of their questions: the same question of a repeated call has the same answer."""
    return {
        question_digest(object_or_empty(requests[key])): object_or_empty(answer)
        for key, answer in answers.items()
        if key in requests
    }


def question_digest(request: JsonObject) -> str:
    """Return the digest of what a server asks for."""
    return json_digest(request.get("params"))
