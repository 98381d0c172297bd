"""The one door to the world: every action of a run passes here, and nowhere else.

Look up what is recorded, ask who must be asked, write down what is about to happen, do it, write down what
came of it. Barriers only where the rules of durability want them.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Protocol, cast

from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery_request import RecoveryDone
from pilotage.agent.state import AgentStatus
from pilotage.errors import ModelCallError, ToolError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.action import Action
from pilotage.runtime.call import Attempt, Call, idempotency_key
from pilotage.runtime.gate import Ask, Deny, Gate
from pilotage.runtime.inbox import Inbox
from pilotage.runtime.interruptions import Paused, RunInterruption
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.liveness import Liveness
from pilotage.runtime.recording import RecordedAction, Recording
from pilotage.runtime.recovery import AskHuman, Begin, Reconcile, Repeat, Reuse, recovery_for
from pilotage.runtime.scope import inside
from pilotage.runtime.waits import Waits


class IOpenStream(Protocol):
    """A model's stream that is still being read."""

    @property
    def path(self) -> str:
        """The scope it was opened in."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether its reply is recorded."""
        ...

    async def drain(self) -> None:
        """Read it to its end and record the reply; whoever reads it gets the rest from memory."""
        ...


class Effects:
    """Carries out the actions of one attempt at a run."""

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        gate: Gate,
        waits: Waits,
        inbox: Inbox,
        clock: IClock,
        ids: IIds,
    ) -> None:
        self.ledger = ledger
        self.recording = recording
        self.waits = waits
        self.inbox = inbox
        self.clock = clock
        self.ids = ids
        self.liveness = Liveness(ledger)
        self.open_streams: list[IOpenStream] = []
        self.under_way: dict[str, tuple[Action, int]] = {}
        self._gate = gate

    async def perform(self, call: Call) -> object:
        """The result of an action: the recorded one, or that of doing it now.

        Raises:
            ToolError: the action failed for certain.
            RunInterruption: this attempt at the run ends here.
        """
        with self.liveness.acting(call.scope):
            for stream in self.open_streams_at(call.scope.path):
                await stream.drain()
            return await self._perform(call)

    async def check_model(self, request: ModelRequest) -> None:
        """Let the gate look at a request before it goes to the model.

        Raises:
            ModelCallError: it must not go.
        """
        denied = await self._gate.before_model(request)
        if denied is not None:
            raise ModelCallError(f"the model call is not allowed: {denied.reason}")

    def open_streams_at(self, path: str) -> list[IOpenStream]:
        """The streams whose reply must be recorded before another action begins in their scope."""
        return [stream for stream in self.open_streams if stream.path == path and not stream.is_over]

    async def _perform(self, call: Call) -> object:
        recorded = self.recording.take(call.action)
        match recovery_for(call.action, recorded, can_reconcile=call.reconcile is not None):
            case Reuse(row):
                return _recorded_result(call, row)
            case Begin():
                arguments = await self._allowed(call)
                return await self._begin(call, self._attempt(call, 1, arguments))
            case Repeat(attempt):
                return await self._again(call, self._attempt(call, attempt, _executed(recorded)))
            case Reconcile(attempt):
                return await self._reconcile(call, self._attempt(call, attempt, _executed(recorded)))
            case AskHuman(attempt):
                return await self._ask_human(call, self._attempt(call, attempt, _executed(recorded)))

    async def _allowed(self, call: Call) -> JsonObject | None:
        """Return when the gate and, where one is needed, a person allow the call: with other arguments, if any."""
        verdict = await self._gate.before_call(call)
        if isinstance(verdict, Deny):
            raise self._failed(call, 1, ToolError(f"{call.action.name!r} is not allowed: {verdict.reason}"))
        if call.needs_approval or isinstance(verdict, Ask):
            return self.waits.approved_arguments(call, 1)
        return None

    async def _begin(self, call: Call, attempt: Attempt) -> object:
        if call.action.is_read_only:
            return await self._act(call, attempt)
        executed: JsonObject = {"asked": call.action.asked, "executed": attempt.arguments}
        view: JsonObject = {"asked": call.action.view}
        self.ledger.append(call.action, JournalStage.BEFORE, attempt.number, executed, view)
        return await self._dispatch(call, attempt)

    async def _dispatch(self, call: Call, attempt: Attempt) -> object:
        self.under_way[call.action.id] = (call.action, attempt.number)
        await self.ledger.barrier()
        return await self._act(call, attempt)

    async def _again(self, call: Call, attempt: Attempt) -> object:
        """The same attempt once more. Its BEFORE row is an old one, so ownership is proven anew."""
        self.under_way[call.action.id] = (call.action, attempt.number)
        await self.ledger.prove()
        return await self._act(call, attempt)

    async def _act(self, call: Call, attempt: Attempt) -> object:
        try:
            with inside(call.action.id):
                result = await call.act(attempt)
        except RunInterruption:
            raise
        except ToolError as error:
            raise self._failed(call, attempt.number, error) from error.__cause__
        except asyncio.CancelledError:
            self._leave_to_a_person(call, attempt)
            raise
        except Exception as error:
            if call.action.may_be_repeated:
                raise self._failed(call, attempt.number, error) from error
            return await self._find_out(call, attempt)
        self._done(call, attempt.number, result)
        await self._gate.after_call(call, call.view_of(result))
        return result

    def _leave_to_a_person(self, call: Call, attempt: Attempt) -> None:
        """A call that was cut short may have taken effect: whoever cut it short must not go on as if it had not."""
        if call.action.may_be_repeated or self.ledger.state.status is AgentStatus.CANCELLING:
            return
        try:
            self.waits.recovered(call, attempt.number)
        except Paused as pause:
            self.liveness.pause(call.scope, pause)
            self.liveness.end(pause)

    async def _reconcile(self, call: Call, attempt: Attempt) -> object:
        """After a crash: the tool may know; what it does not know of has not happened, and is done now."""
        found = await self._asked(call, attempt)
        match found:
            case _Unknown():
                return await self._ask_human(call, attempt)
            case None:
                return await self._again(call, attempt)
            case _:
                self._done(call, attempt.number, found)
                return found

    async def _find_out(self, call: Call, attempt: Attempt) -> object:
        """After an exception that says nothing: the tool may know, else a person must."""
        found = await self._asked(call, attempt) if call.reconcile else _Unknown()
        match found:
            case _Unknown():
                return await self._ask_human(call, attempt)
            case None:
                raise self._failed(
                    call, attempt.number, ToolError(f"{call.action.name!r} did not take effect")
                )
            case _:
                self._done(call, attempt.number, found)
                return found

    async def _asked(self, call: Call, attempt: Attempt) -> object:
        if call.reconcile is None:
            return _Unknown()
        try:
            return await call.reconcile(attempt.idempotency_key)
        except Exception:  # noqa: BLE001 - who cannot say leaves it unknown
            return _Unknown()

    async def _ask_human(self, call: Call, attempt: Attempt) -> object:
        answer = self.waits.recovered(call, attempt.number)
        if isinstance(answer, RecoveryDone):
            result = call.decode(answer.result)
            self._done(call, attempt.number, result)
            return result
        return await self._begin(call, self._attempt(call, answer.attempt, attempt.arguments))

    def _done(self, call: Call, attempt: int, result: object) -> None:
        """Write down what came of an action."""
        try:
            record: JsonObject = {"result": to_json_value(result)}
            self._close(call, attempt, record, call.view_of(result))
        except (TypeError, ValueError) as error:
            words = f"{call.action.name!r} was done, but its result cannot be recorded: {error}"
            raise self._failed(call, attempt, ToolError(words)) from error

    def _failed(self, call: Call, attempt: int, error: Exception) -> ToolError:
        """Write down that an action failed for certain, and give the error the program gets, now and in replay."""
        failure = error if isinstance(error, ToolError) else ToolError(f"{type(error).__name__}: {error}")
        record: JsonObject = {"error": str(failure)}
        self._close(call, attempt, record, record)
        return failure

    def _close(self, call: Call, attempt: int, record: JsonObject, view: JsonObject) -> None:
        self.ledger.append(call.action, JournalStage.AFTER, attempt, record, view)
        self.under_way.pop(call.action.id, None)

    def _attempt(self, call: Call, number: int, arguments: JsonObject | None) -> Attempt:
        key = idempotency_key(self.ledger.run, call.action.id)
        return Attempt(number, self.ledger.epoch, key, arguments)


active_effects: ContextVar[Effects | None] = ContextVar("pilotage_effects", default=None)


class _Unknown:
    """Nobody can say whether it happened."""


def _recorded_result(call: Call, row: JournalRow) -> object:
    """What a finished action gave, as the program got it then."""
    record = cast("dict[str, JsonValue]", row.record)
    if "error" in record:
        raise ToolError(record["error"])
    return call.decode(record["result"])


def _executed(recorded: RecordedAction | None) -> JsonObject | None:
    """The arguments that the last attempt ran with, where a person had changed them."""
    if recorded is None or recorded.before is None:
        return None
    return cast("JsonObject | None", cast(JsonObject, recorded.before.record)["executed"])
