"""What belongs to a run besides its actions: open streams, children, what the model is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

from pilotage.agent.context import ContextPack
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.deadlines import timed_out
from pilotage.runtime.budget.spending import Spending, count_rows
from pilotage.runtime.door.admission import Gate, SwitchStage, label_after_tool
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.effect import Attempt, Call, new_attempt
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.trust import RUN_INPUT, label_of_recalled
from pilotage.runtime.journal.action import fingerprint_of, message_id_of
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.liveness import Liveness
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.records import TRACE
from pilotage.runtime.journal.scope import Scope
from pilotage.runtime.people.signals import SignalQueue
from pilotage.runtime.people.waiting import Questions
from pilotage.runtime.telemetry import UNOBSERVED, RunTelemetry
from pilotage.values import value


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


class IChildren(Protocol):
    """The runs that belong to this one."""

    async def run(self, name: str, agent: AgentRef, task: JsonObject) -> JsonValue:
        """Run a child to its end and give its output."""
        ...


class ISignalHandling(Protocol):
    """The methods of an agent that take in what is sent to its runs."""

    async def before(self, action_id: str) -> None:
        """Let handlers take in what waits for them, before an action begins."""
        ...

    async def handle(self, action_id: str, signals: Sequence[AgentSignal], *, is_new: bool) -> None:
        """Give signals to their handlers, one after the other; in replay as they were given."""
        ...

    async def at_end(self) -> None:
        """Let handlers take in what still waits for them when the program has ended."""
        ...


@value
class Shown:
    """A request as the model gets it, and its manifest as the record of the call shows it."""

    request: ModelRequest
    manifest: JsonObject | None = None


class IPrompts(Protocol):
    """Keeps what models are asked, where somebody wants it kept."""

    def keep(self, action_id: str, model: str, request: ModelRequest) -> None:
        """Keep a request that is about to be sent."""
        ...


class IWarnings(Protocol):
    """Tells the readers of a run that a budget comes to its end."""

    def look_at(self, spending: Spending) -> None:
        """Warn of the bounds that the run comes near to."""
        ...


@value
class Summary:
    """What a model says of earlier turns, and what asking it took."""

    text: str
    spent: BudgetAmount


class IContext(Protocol):
    """What the model gets to see of what a program wants to show it."""

    def concerns(self, request: ModelRequest, *, is_live: bool) -> bool:
        """Whether there is anything to do for a request; if not, the model sees it as it is.

        A request whose reply is recorded goes to no model.
        """
        ...

    def also_show(self, packs: Sequence[ContextPack]) -> None:
        """Show these with every request from here on, beside what the caller of the run gave it."""
        ...

    async def shown(
        self,
        scope: Scope,
        call_id: str,
        request: ModelRequest,
        summarise: Callable[[ModelRequest], Awaitable[Summary]],
    ) -> Shown:
        """The request as the model may see it; `summarise` asks the model itself."""
        ...


_INTERRUPTED = AgentStatus.INTERRUPTED


class ILateParts(Protocol):
    """Makes the parts of a run that many runs do without, when they are asked for."""

    def waits(self, effects: Effects) -> Questions: ...
    def inbox(self, effects: Effects) -> SignalQueue: ...
    def children(self, effects: Effects) -> IChildren: ...
    def context(self, effects: Effects) -> IContext: ...


class Effects:
    """The parts of one attempt at a run, and how far it has come."""

    # Looked at by few runs. What every action looks at is set in each of them: that is found at once.
    earlier_trace: str | None = None
    may_delegate = False
    _waits: Questions | None = None
    _inbox: SignalQueue | None = None
    _children: IChildren | None = None

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        gate: Gate,
        telling: EventWriter,
        spending: Spending,
        clock: IClock,
        ids: IIds,
        redactor: Redactor,
        deadline: datetime | None = None,
        hold: HeldLease | None = None,
        salt: str = "",
        *,
        parts: ILateParts,
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
        self.observer: RunTelemetry = UNOBSERVED
        self.trust = RUN_INPUT
        self.said_by: str | tuple[str, int] = f"{ledger.run.run_id}:message"
        """Whose words the program says now: an id, or the model call (its action, the epoch) that gave them."""
        self._hold = hold

    @property
    def waits(self) -> Questions:
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
    def inbox(self) -> SignalQueue:
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
        """Forget the parts that know this one: what is over is freed at once, with everything that hangs on it."""
        self._context = self._children = None

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
        if self.deadline is not None:
            self.check_time()
        if self.telling.is_repeating and self.recording.is_used_up:
            self.telling.go_live()

    def check_time(self) -> None:
        """Return while the run has time left.

        Raises:
            LimitReached: its time is up.
        """
        if self.deadline is not None and (late := timed_out(self.deadline, self.clock.now())) is not None:
            raise late

    def go_on(self) -> None:
        """A run that waited does something again: it is under way, also for whoever finds it without a process."""
        state = self.ledger.state
        if state.status is _INTERRUPTED:
            self.ledger.move(state.moved_to(AgentSituation.RUNNING))

    async def be_sure(self) -> None:
        """Return when nobody else can be driving this run: an effect may begin now, and only now.

        Raises:
            RunOwnershipLost: somebody else has the run.
        """
        while self._hold is not None and not self._hold.is_safe:
            # Frozen for so long that somebody may have taken over: only a commit behind a new lease can tell.
            await self._hold.renew()
            await self.ledger.prove()

    def know(self, call: Call) -> None:
        """The program knows what came of a call from here on: whatever it decides, it decides knowing it."""
        tool = call.descriptor
        if tool is not None and tool.result_label is not None:
            self.trust = label_after_tool(self.trust, tool)

    def know_inside(self, call: Call) -> None:
        """What happened inside a call that replay does not enter: it was paid for, and what it recalled is known."""
        if rows := self.recording.inside(call.action.id):
            count_rows(rows, self.spending)
            self.trust = self.trust.join(label_of_recalled(rows))

    def attempt(self, call: Call, number: int, arguments: JsonObject | None) -> Attempt:
        """A try at a call; with other arguments than those asked for, where a person changed them."""
        return new_attempt(number, self.ledger.epoch, self.ledger.run, call.action.id, arguments)


active_effects: ContextVar[Effects | None] = ContextVar("pilotage_effects", default=None)
