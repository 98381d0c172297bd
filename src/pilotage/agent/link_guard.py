"""`LinkGuard`: an output guard that lets only links and images of named hosts work in answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pilotage.agent.ports.handlers import IAgentOutputGuard
from pilotage.agent.principal import RunContext
from pilotage.jsonvalue import JsonValue
from pilotage.safety.links import neutralize_links


class LinkGuard(IAgentOutputGuard):
    """Makes links and images in an answer plain text, unless they lead to one of the hosts.

    All texts of a structured answer are looked at. Text that is streamed leaves before any output guard has seen it:
    agents whose answers are rendered as Markdown use `StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED`.
    """

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = frozenset(hosts)

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        shown = self._neutral(output)
        return output if shown == output else shown

    def _neutral(self, given: JsonValue) -> JsonValue:
        if isinstance(given, str):
            return neutralize_links(given, self._hosts)
        if isinstance(given, Mapping):
            return {name: self._neutral(each) for name, each in given.items()}
        if isinstance(given, list | tuple):
            return [self._neutral(each) for each in given]
        return given
