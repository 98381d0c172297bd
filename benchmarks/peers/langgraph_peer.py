"""LangGraph's prebuilt agent with a fake model."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Any

from benchmarks.floor import INSTRUCTIONS, WORDS, look_up
from benchmarks.peers.measuring import tell
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.prebuilt import create_react_agent

warnings.simplefilter("ignore")


class Asking(BaseChatModel):
    """Asks for a page as often as the user says, then answers."""

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Asking:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        asked = (len(messages) - 2) // 2
        if asked < int(str(messages[1].content)):
            call = {"name": "look_up", "args": {"page": asked}, "id": f"call-{asked}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Talking(Asking):
    """Says as many words as the user asks for."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(int(str(messages[1].content))):
            yield ChatGenerationChunk(message=AIMessageChunk(WORDS[number % 8]))


_asking = create_react_agent(Asking(), [look_up], prompt=INSTRUCTIONS)
_talking = create_react_agent(Talking(), [look_up], prompt=INSTRUCTIONS)


async def run(turns: int) -> None:
    """A run, read as a stream of updates."""
    given = {"messages": [("user", str(turns))]}
    async for _ in _asking.astream(given, {"recursion_limit": 10_000}, stream_mode="updates"):
        pass


async def talk(deltas: int) -> None:
    """A run, read as a stream of tokens."""
    async for _ in _talking.astream({"messages": [("user", str(deltas))]}, stream_mode="messages"):
        pass


if __name__ == "__main__":
    tell("langgraph", run, talk)
