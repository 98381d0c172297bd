"""The one door to the world: every action of a run passes here, and nowhere else.

Look up what is recorded, ask who must be asked, write down what is about to happen, do it, write down what
came of it. Barriers only where the rules of durability want them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import RecoveryDone
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.errors import ToolError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.actions.action import fingerprint_of, message_id_of
from pilotage.runtime.actions.call import Attempt, Call, new_attempt
from pilotage.runtime.actions.interruptions import Paused, RunInterruption
from pilotage.runtime.actions.scope import inside
from pilotage.runtime.door.finding_out import Unknown, asked_of_its_tool, asked_of_people
from pilotage.runtime.door.inbox import Inbox
from pilotage.runtime.door.liveness import Liveness
from pilotage.runtime.door.observing import NOBODY_OBSERVES, Observer
from pilotage.runtime.door.outcomes import Outcomes, executed_arguments, recorded_result
from pilotage.runtime.door.run_parts import (
    IChildren,
    IContext,
    IOpenStream,
    IPrompts,
    ISignalHandling,
    IWarnings,
)
from pilotage.runtime.door.waits import Waits
from pilotage.runtime.gate.counting import count_rows
from pilotage.runtime.gate.deadline import timed_out
from pilotage.runtime.gate.gate import Gate
from pilotage.runtime.gate.recalled import label_of_recalled
from pilotage.runtime.gate.spending import NOTHING, ONE_TOOL_CALL, Spending
from pilotage.runtime.gate.switch_stage import SwitchStage
from pilotage.runtime.gate.trust_stage import label_after_tool
from pilotage.runtime.gate.verdicts import Ask, Deny, GateVerdict
from pilotage.runtime.journal.leasing import Hold
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import RecordedAction, Recording
from pilotage.runtime.journal.recovery import (
    AskHuman,
    Begin,
    FetchAgain,
    Reconcile,
    Repeat,
    Reuse,
    recovery_for,
)
from pilotage.runtime.journal.trace_record import TRACE
from pilotage.runtime.journal.trust_record import RUN_INPUT
from pilotage.runtime.stream.redactor import Redactor
from pilotage.runtime.stream.telling import Telling

_INTERRUPTED = AgentStatus.INTERRUPTED


class IParts(Protocol):
    """Makes the parts of a run that many runs do without, when they are asked for."""

    def waits(self, effects: Effects) -> Waits: ...
    def inbox(self, effects: Effects) -> Inbox: ...
    def children(self, effects: Effects) -> IChildren: ...
    def context(self, effects: Effects) -> IContext: ...


class Effects:
    """Carries out the actions of one attempt at a run."""

    # Looked at by few runs. What every action looks at is set in each of them: that is found at once.
    earlier_trace: str | None = None
    may_delegate = False
    _waits: Waits | None = None
    _inbox: Inbox | None = None
    _children: IChildren | None = None

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        gate: Gate,
        telling: Telling,
        spending: Spending,
        clock: IClock,
        ids: IIds,
        redactor: Redactor,
        deadline: datetime | None = None,
        hold: Hold | None = None,
        salt: str = "",
        *,
        parts: IParts,
    ) -> None:
        self.salt = salt or ledger.run.run_id
        self.ledger = ledger
        self.recording = recording
        self.has_record = not recording.is_empty
        """Whether anything was done in an earlier attempt."""
        self.gate = gate
        self.telling = telling
        self.spending = spending
        self.clock = clock
        self.ids = ids
        self.redactor = redactor
        self.deadline = deadline
        self.liveness = Liveness(ledger)
        self.outcomes = Outcomes(ledger, redactor, is_seen=ledger.is_kept or not gate.is_open)
        self.open_streams: list[IOpenStream] = []
        self.unrecalled: list[AgentToolDescriptor] = []
        self._parts = parts
        self.is_kept = ledger.is_kept
        self.needs_context = ledger.is_kept
        """Whether what models are shown is looked at, whatever they are asked."""
        self._context: IContext | None = None
        self.prompts: IPrompts | None = None
        self.handling: ISignalHandling | None = None
        self.switches: SwitchStage | None = None
        self.warnings: IWarnings | None = None
        self.observer: Observer = NOBODY_OBSERVES
        self.trust = RUN_INPUT
        self.said_by: str | tuple[str, int] = f"{ledger.run.run_id}:message"
        """Whose words the program says now: an id, or the model call (its action, the epoch) that gave them."""
        self._hold = hold

    @property
    def waits(self) -> Waits:
        """The questions to people, and their answers."""
        if self._waits is None:
            self._waits = self._parts.waits(self)
        return self._waits

    @property
    def message_id(self) -> str:
        """The id of what the program says now."""
        said_by = self.said_by
        return said_by if isinstance(said_by, str) else message_id_of(self.ledger.run.run_id, *said_by)

    def was_asked(self, action_id: str) -> bool:
        """Whether a person was asked about an action: then the answer counts, whatever the gate says by now."""
        return self.has_record and self.waits.was_asked(action_id)

    @property
    def inbox(self) -> Inbox:
        """What is sent to the run."""
        if self._inbox is None:
            self._inbox = self._parts.inbox(self)
        return self._inbox

    @property
    def children(self) -> IChildren:
        if self._children is None:
            self._children = self._parts.children(self)
        return self._children

    @property
    def context(self) -> IContext:
        """What decides what models are shown."""
        if self._context is None:
            self._context, self.needs_context = self._parts.context(self), True
        return self._context

    def let_go(self) -> None:
        """Forget the parts that know this door: what is over is freed at once, with everything that hangs on it."""
        self._context = self._children = None

    async def perform(self, call: Call) -> object:
        """The result of an action: the recorded one, or that of doing it now.

        Raises:
            ToolError: the action failed for certain.
            RunInterruption: this attempt at the run ends here.
        """
        self.liveness.begin(call.scope)
        try:
            if self.open_streams:
                for stream in self.open_streams_at(call.scope.path):
                    await stream.drain()
            if self.handling is not None and not call.action.is_read_only:
                await self.handling.before(call.action.id)
            recorded = self.recording.take(call.action) if self.has_record else None
            if recorded is not None:
                result = await self._recovered(call, recorded)
            else:
                if self.switches is not None:
                    await self.switches.check(_tool_name(call))
                if self.deadline is not None or self.telling.is_repeating:
                    self.begin_anew()
                result = await self._begun(call)
        except BaseException as end:
            self.liveness.ended(call.scope, end)
            raise
        self.liveness.ended(call.scope)
        return result

    def ask_ahead(self, calls: Sequence[Call]) -> None:
        """Ask people about calls that must wait for another one, so that all can be answered at once."""
        for call in calls:
            if self.recording.knows(call.action.id):
                continue
            if call.needs_approval:
                self.waits.ask_only(call)
            elif call.is_deferred:
                self.waits.ask_for_result(call)

    async def hear(self, boundary: str, action_id: str, position: int) -> None:
        """Take in what was sent to the run, before a model is shown so many messages of the program's own."""
        is_new = self.recording.is_used_up
        for_handlers = self.inbox.take_in(boundary, position)
        self.learn_from_signals()
        if for_handlers and self.handling is not None:
            await self.handling.handle(action_id, for_handlers, is_new=is_new)

    def learn_from_signals(self) -> None:
        """What was taken in is known from here on, whoever wrote it."""
        if self.inbox.trust is not None:
            self.trust = self.trust.join(self.inbox.trust)

    def leave_trace(self) -> None:
        """Let a trace of this attempt go on from that of the one before, and leave word of it for the next one."""
        here = self.observer.follow(self.earlier_trace)
        if here is not None:
            self.ledger.claim({TRACE: here}, {TRACE: here})

    def open_streams_at(self, path: str) -> list[IOpenStream]:
        """The streams whose reply must be recorded before another action begins in their scope."""
        return [stream for stream in self.open_streams if stream.path == path and not stream.is_over]

    def fingerprint(self, action_id: str, kind: AgentActionKind, name: str, asked: JsonValue = None) -> str:
        """The fingerprint of an action of this run; a run that nobody keeps needs none."""
        if not self.is_kept:
            return ""
        return fingerprint_of(self.salt, action_id, kind, name, asked)

    def begin_anew(self) -> None:
        """Something is done that is not recorded: the time must allow it, and the program says new things from here.

        Raises:
            LimitReached: the time of the run is up.
        """
        self._check_time()
        if self.telling.is_repeating and self.recording.is_used_up:
            self.telling.go_live()

    def _check_time(self) -> None:
        if self.deadline is not None and (late := timed_out(self.deadline, self.clock.now())) is not None:
            raise late

    async def _recovered(self, call: Call, recorded: RecordedAction) -> object:
        """What was begun before, by this run: reused, or brought to its end."""
        recovery = recovery_for(call.action, recorded, can_reconcile=call.reconcile is not None)
        if isinstance(recovery, Reuse):
            return self._reused(call, recovery.row)
        if self.switches is not None:
            await self.switches.check(_tool_name(call))
        if not isinstance(recovery, Begin) and call.action.kind is AgentActionKind.TOOL_CALL:
            self.spending.absorb(ONE_TOOL_CALL)
        match recovery:
            case FetchAgain():
                self._know(call)
                return await self._read_again(call)
            case Begin():
                self.begin_anew()
                return await self._begun(call)
            case Repeat(attempt):
                self._check_time()
                return await self._again(call, self._attempt(call, attempt, executed_arguments(recorded)))
            case Reconcile(attempt):
                self._check_time()
                return await self._reconcile(call, self._attempt(call, attempt, executed_arguments(recorded)))
            case AskHuman(attempt):
                self._check_time()
                return await self._ask_human(call, self._attempt(call, attempt, executed_arguments(recorded)))

    def _reused(self, call: Call, row: JournalRow) -> object:
        """What came of a call that was done: it was paid for, and the program knows it."""
        if call.action.kind is AgentActionKind.TOOL_CALL:
            self.spending.absorb(ONE_TOOL_CALL)
        self._know(call)
        self._know_inside(call)
        if call.descriptor is not None and call.descriptor.secrets:
            self.unrecalled.append(call.descriptor)
        return recorded_result(call, row)

    async def _read_again(self, call: Call) -> object:
        """What was read before, once more: the program gets it as it would have got the recorded one."""
        try:
            with inside(call.action.id):
                result = await call.act(self._attempt(call, 1, None))
        except (RunInterruption, ToolError):
            raise
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error
        return self.outcomes.as_recorded(call, result)

    def _begun(self, call: Call) -> Awaitable[object]:
        if not self.gate.is_open:
            return self._begun_behind_the_gate(call)
        self._count(call)
        arguments, ledger = self._allowed(call, self.gate.trusts(call, self.trust)), self.ledger
        return self._begin(call, new_attempt(1, ledger.epoch, ledger.run, call.action.id, arguments))

    async def _begun_behind_the_gate(self, call: Call) -> object:
        is_tool = call.action.kind is AgentActionKind.TOOL_CALL
        reserved = await self.gate.reserve(ONE_TOOL_CALL) if is_tool else None
        used = NOTHING
        try:
            self._count(call)
            was_asked = self.was_asked(call.action.id)
            verdict = await self.gate.before_call(call, self.trust, was_asked=was_asked)
            arguments = self._allowed(call, verdict)
            used = ONE_TOOL_CALL
        finally:
            # Before it begins: the row that says so and what it takes out of the budget are one commit.
            await self.gate.settle(reserved, used)
        return await self._begin(call, self._attempt(call, 1, arguments))

    def _count(self, call: Call) -> None:
        if call.action.kind is AgentActionKind.TOOL_CALL and not call.is_reserved:
            self.spending.reserve_tool_calls()
            if self.warnings is not None:
                self.warnings.look_at(self.spending)

    def _allowed(self, call: Call, verdict: GateVerdict) -> JsonObject | None:
        """Return when the gate and, where one is needed, a person allow the call: with other arguments, if any."""
        if isinstance(verdict, Deny):
            raise self.outcomes.refused(call, verdict.reason)
        was_asked = self.has_record and self.was_asked(call.action.id)
        if call.needs_approval or was_asked or isinstance(verdict, Ask):
            return self.waits.approved_arguments(call, 1, verdict)
        return None

    def go_on(self) -> None:
        """A run that waited does something again: it is under way, also for whoever finds it without a process."""
        state = self.ledger.state
        if state.status is _INTERRUPTED:
            self.ledger.move(state.moved_to(AgentSituation.RUNNING))

    def _begin(self, call: Call, attempt: Attempt) -> Awaitable[object]:
        if call.is_deferred:
            return self._given(call, attempt)
        if self.ledger.state.status is _INTERRUPTED:
            self.go_on()
        return self._act(call, attempt) if call.action.is_read_only else self._written_down(call, attempt)

    async def _written_down(self, call: Call, attempt: Attempt) -> object:
        record, view = {"asked": call.action.asked}, {"asked": call.action.view}
        if attempt.arguments is not None:
            record["executed"], view["executed"] = attempt.arguments, call.shown(attempt.arguments)
        self.ledger.append(call.action, JournalStage.BEFORE, attempt.number, record, view, call.descriptor)
        if call.begins is not None:
            self.ledger.report(call.begins)
        return await self._dispatch(call, attempt)

    async def _dispatch(self, call: Call, attempt: Attempt) -> object:
        """Do what is written down, once that is kept and the run is certainly still ours."""
        self.outcomes.begin(call, attempt.number)
        await self.ledger.barrier()
        await self.be_sure()
        return await self._act(call, attempt)

    async def _given(self, call: Call, attempt: Attempt) -> object:
        """What came of a call that is somebody else's to carry out: nothing is dispatched, and nothing is unknown."""
        result = call.decode(self.waits.given_result(call).result)
        self._know(call)
        _, given = self.outcomes.done(call, attempt.number, result)
        return given

    async def be_sure(self) -> None:
        """Return when nobody else can be driving this run: an effect may begin now, and only now.

        Raises:
            RunOwnershipLost: somebody else has the run.
        """
        while self._hold is not None and not self._hold.is_safe:
            # Frozen for so long that somebody may have taken over: only a commit behind a new lease can tell.
            await self._hold.renew()
            await self.ledger.prove()

    async def _again(self, call: Call, attempt: Attempt) -> object:
        """The same attempt once more. Its BEFORE row is an old one, so ownership is proven anew."""
        self.go_on()
        self.outcomes.begin(call, attempt.number)
        await self.ledger.prove()
        await self.be_sure()
        return await self._act(call, attempt)

    async def _act(self, call: Call, attempt: Attempt) -> object:
        try:
            with inside(call.action.id):
                acting = call.act(attempt)
                result = await (
                    acting if self.observer.is_idle else self.observer.observed(call.action, acting)
                )
        except RunInterruption:
            raise
        except ToolError as error:
            self._know(call)
            raise self.outcomes.failed(call, attempt.number, error) from error.__cause__
        except asyncio.CancelledError:
            self._leave_to_a_person(call, attempt)
            raise
        except Exception as error:
            if call.action.may_be_repeated:
                raise self.outcomes.failed(call, attempt.number, error) from error
            return await self._find_out(call, attempt)
        view, given = self.outcomes.done(call, attempt.number, result)
        self._know(call)
        if not self.gate.is_open:
            await self.gate.after_call(call, view)
        return given

    def _know(self, call: Call) -> None:
        """The program knows what came of a call from here on: whatever it decides, it decides knowing it."""
        tool = call.descriptor
        if tool is not None and tool.result_label is not None:
            self.trust = label_after_tool(self.trust, tool)

    def _know_inside(self, call: Call) -> None:
        """What happened inside a call that replay does not enter: it was paid for, and what it recalled is known."""
        if rows := self.recording.inside(call.action.id):
            count_rows(rows, self.spending)
            self.trust = self.trust.join(label_of_recalled(rows))

    def _leave_to_a_person(self, call: Call, attempt: Attempt) -> None:
        """A call that was cut short may have taken effect: whoever cut it short must not go on as if it had not."""
        is_ending = self.ledger.state.status is AgentStatus.CANCELLING or self.liveness.is_ending
        if call.action.may_be_repeated or is_ending:
            return
        try:
            self.waits.recovered(call, attempt.number)
        except Paused as pause:
            self.liveness.pause(call.scope, pause)
            self.liveness.end(pause)

    async def _reconcile(self, call: Call, attempt: Attempt) -> object:
        """After a crash: the tool may know; what it does not know of has not happened, and is done now."""
        found = await asked_of_its_tool(call, attempt)
        match found:
            case Unknown():
                return await self._ask_human(call, attempt)
            case None:
                return await self._again(call, attempt)
            case _:
                self._know(call)
                self.outcomes.done(call, attempt.number, found)
                return found

    async def _find_out(self, call: Call, attempt: Attempt) -> object:
        """After an exception that says nothing: the tool may know, else a person must."""
        found = await asked_of_its_tool(call, attempt)
        match found:
            case Unknown():
                return await self._ask_human(call, attempt)
            case None:
                raise self.outcomes.failed(
                    call, attempt.number, ToolError(f"{call.action.name!r} did not take effect")
                )
            case _:
                self._know(call)
                self.outcomes.done(call, attempt.number, found)
                return found

    async def _ask_human(self, call: Call, attempt: Attempt) -> object:
        answer = await asked_of_people(call, attempt.number, self.waits, self.gate, self.outcomes.late)
        if isinstance(answer, RecoveryDone):
            result = call.decode(answer.result)
            self._know(call)
            self.outcomes.done(call, attempt.number, result)
            return result
        return await self._begin(call, self._attempt(call, answer.attempt, attempt.arguments))

    def _attempt(self, call: Call, number: int, arguments: JsonObject | None) -> Attempt:
        return new_attempt(number, self.ledger.epoch, self.ledger.run, call.action.id, arguments)


def _tool_name(call: Call) -> str | None:
    return call.action.name if call.descriptor is not None else None


active_effects: ContextVar[Effects | None] = ContextVar("pilotage_effects", default=None)
