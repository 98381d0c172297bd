"""What of a run's answer may leave: guarded as a whole, approved where somebody wants to, sensitive parts hidden."""

from __future__ import annotations

from dataclasses import replace

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.ports.handlers import IAgentOutputGuard
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentSituation
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentOutputGuardError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.door.run import Effects
from pilotage.runtime.effect import Call
from pilotage.runtime.journal.action import RESULT, Action, new_action
from pilotage.runtime.journal.interruptions import RunEnded
from pilotage.runtime.journal.records import Answer
from pilotage.runtime.journal.scope import Scope
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import guard_json_value

_BOUNDARY = AgentApprovalBoundaryKind.FINAL_PUBLICATION
_NOTHING = (None, "")


class Publication:
    """Decides about the answer of one attempt at a run; what was refused once does not leave as a partial answer.

    `guard` looks at an answer before it is published, `sensitive` are the parts of it that others must not read.
    """

    def __init__(
        self,
        effects: Effects,
        context: RunContext,
        guard: IAgentOutputGuard | None = None,
        sensitive: tuple[SensitiveFieldDescriptor, ...] = (),
    ) -> None:
        self._effects = effects
        self._context = context
        self._guard = guard
        self._sensitive = sensitive
        self._is_refused = False

    @property
    def is_looked_at(self) -> bool:
        """Whether anybody looks at an answer before it is published."""
        return self._guard is not None or self._must_be_asked

    async def whole(self, answer: Answer) -> Answer:
        """The answer as it may be published.

        Raises:
            AgentOutputGuardError: it must not leave.
            RunEnded: a person said no.
            Paused: a person is asked first.
        """
        try:
            output = answer.output
            if self._guard is not None:
                output = await self._guarded(output)
            if self._must_be_asked:
                await self._approved(to_json_value(output))
        except (AgentOutputGuardError, RunEnded):
            self._is_refused = True
            raise
        return answer if output is answer.output else replace(answer, output=output)

    @property
    def _must_be_asked(self) -> bool:
        """Whether somebody may have to allow it; that nobody was asked before is known by what is recorded."""
        effects = self._effects
        return not effects.gate.is_open or effects.was_asked(RESULT)

    async def partial(self, answer: Answer) -> Answer:
        """What a run leaves that does not come to its answer: nothing that was refused, or that nobody could allow."""
        output = _as_json(answer.output)
        if output in _NOTHING:
            return answer
        if self._is_refused or await self._asks(self.action(self._shown(output))):
            return replace(answer, output=None)
        try:
            return replace(answer, output=await self._guarded(output))
        except AgentOutputGuardError:
            return replace(answer, output=None)

    def view_of(self, record: JsonObject) -> JsonObject:
        """What others may see of the record of a result."""
        if self._sensitive:
            record = {**record, "result": guard_json_value(record["result"], self._sensitive)}
        redactor = self._effects.redactor
        return record if redactor.is_idle else redactor.json(record)

    def action(self, view: JsonValue, asked: JsonValue = None) -> Action:
        """The result of the run as an action; a person's answer is bound to the output it was `asked` about."""
        kind = AgentActionKind.VALUE
        fingerprint = self._effects.fingerprint(RESULT, kind, "result", asked)
        return new_action(RESULT, kind, "result", asked, view, Idempotency.IDEMPOTENT, True, fingerprint)

    def _shown(self, output: JsonValue) -> JsonValue:
        return self.view_of({"result": output})["result"]

    async def _guarded(self, output: object) -> object:
        guard = self._guard
        if guard is None:
            return output
        try:
            checked = await guard.check(self._context, to_json_value(output))
        except AgentOutputGuardError:
            raise
        except Exception as error:
            raise AgentOutputGuardError(f"the output guard failed ({type(error).__name__})") from error
        return output if checked == to_json_value(output) else checked

    async def _asks(self, action: Action) -> bool:
        return await self._effects.gate.question(_BOUNDARY, action) is not None

    async def _approved(self, output: JsonValue) -> None:
        action, was_asked = self.action(self._shown(output), output), self._effects.was_asked(RESULT)
        asks = None if was_asked else await self._effects.gate.question(_BOUNDARY, action)
        if asks is None and not was_asked:
            return
        call = Call(Scope("run"), action, _published, lambda given: given, boundary=_BOUNDARY)
        try:
            self._effects.waits.approved_arguments(call, 1, asks)
        except ToolError as rejected:
            raise RunEnded(AgentSituation.APPROVAL_REJECTED, str(rejected)) from rejected


def _as_json(output: object) -> JsonValue:
    """A partial output that has no JSON form is told in words."""
    try:
        return to_json_value(output)
    except (TypeError, ValueError):
        return str(output)


async def _published(_: object) -> object:
    raise AssertionError("the answer is published by the end of the run")
