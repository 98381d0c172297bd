"""`Run`: the shared state of one attempt at a run, and the parts that its effects work with."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from pilotage.agent.approval import ApprovalTerms
from pilotage.agent.messages import MediaPart, ModelMessage, media_after
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import Idempotency
from pilotage.agent.yields import State, StatePatch
from pilotage.errors import ToolError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.budget.holds import LostHold
from pilotage.runtime.budget.limits import BudgetWarnings, timed_out
from pilotage.runtime.budget.spending import Spending, count_rows
from pilotage.runtime.context.evidence import PromptSnapshots
from pilotage.runtime.context.fit import ContextStage
from pilotage.runtime.door.hooks import Hooks
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.door.run_source import RunPorts, RunSource
from pilotage.runtime.door.shared_state import SharedState
from pilotage.runtime.effect import (
    NOTHING,
    ONE_TOOL_CALL,
    Ask,
    Effect,
    EffectKind,
    recorded_secrets,
    secret_refs,
    secrets_of_outcome,
)
from pilotage.runtime.events.following import message_id_of
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.trust import RUN_INPUT, label_in, label_of_rows
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import record_of
from pilotage.runtime.journal.records import change_of, event_of, recorded_changes
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.scope import Action, fingerprint_of, idempotency_key, new_action
from pilotage.runtime.people.questions import Questions
from pilotage.runtime.people.signals import SignalQueue
from pilotage.runtime.telemetry import UNOBSERVED, RunTelemetry
from pilotage.safety.fields import SecretRef
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

T = TypeVar("T")
_NEUTRAL = TrustLabel()


_WITHOUT_RUN = (Questions, SignalQueue)
"""Parts that do not refer to their run; they are read after the attempt has ended."""


class RefusedError(Exception):
    """A stage of the admission refuses an effect; the refusal is recorded as its outcome."""


class RejectedError(Exception):
    """A person rejects an effect, and the run goes on; the rejection is recorded as its outcome."""

    def __init__(self, rejection: ToolError) -> None:
        super().__init__(str(rejection))
        self.rejection = rejection


class Stage(ABC):
    """One stage of the admission: it lets an effect pass, or raises."""

    @abstractmethod
    def admit(self, run: Run, effect: Effect) -> Awaitable[None] | None:
        """Admit the effect; return an awaitable if a check outside the run comes first.

        Raises:
            RefusedError: the effect must not begin.
            RunInterruption: this attempt at the run ends here.
        """

    def give_back(self, run: Run, effect: Effect) -> Awaitable[None] | None:
        """Give back the reservation of the stage for an effect that a later stage refused."""
        return None


class StageTable(dict[EffectKind, tuple[Stage, ...]]):
    """The stages that look at each kind of effect, in their one order; a row is made when it is asked for first."""

    def __init__(self, order: Sequence[tuple[Stage, frozenset[EffectKind]]]) -> None:
        self._order = order

    def __missing__(self, kind: EffectKind) -> tuple[Stage, ...]:
        stages = self[kind] = tuple([stage for stage, kinds in self._order if kind in kinds])
        return stages


@value
class Admission:
    """The admission of an agent's effects, composed once per agent.

    `again` are the stages that look at an effect which an earlier attempt had begun: it was admitted then.
    `terms` are those of questions for approval. `check_switch` looks at the kill switches before an attempt begins and
    before it gives its answer.
    """

    stages: StageTable
    again: StageTable
    wants_approval: Callable[[Run, Effect], Awaitable[Ask | None]]
    terms: Callable[[Run], ApprovalTerms]
    check_switch: Callable[[Run], Awaitable[None]] | None


class OpenStream(ABC):
    """The stream of a model that is still being read."""

    is_over: bool = False
    """Whether its reply is recorded."""

    @property
    @abstractmethod
    def effect(self) -> Effect:
        """The model call."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The scope it was opened in."""

    @abstractmethod
    async def drain(self) -> None:
        """Read the stream to its end and record the reply; its reader gets the rest from memory."""

    @abstractmethod
    async def close_if_left(self) -> None:
        """Record the part that was read of a stream that its reader dropped; its tokens count."""


class Run:
    """One attempt at a run. Effects, hooks and programs share it; `perform` carries its effects out."""

    stopped: Mapping[str, tuple[Action, int]] = MappingProxyType({})
    """The actions that the cancellation of the run has stopped in this attempt, whether they have rows or not."""
    earlier_trace: str | None = None
    """The position of the attempt before in its trace."""
    recall_secrets: Callable[[], Awaitable[None]] | None = None
    """Registers `secrets_to_recall`; None where nothing provides secrets."""
    _without_media: Sequence[ModelMessage] = ()
    """The messages of the last request, if they have no media."""

    def __init__(
        self,
        source: RunSource,
        ports: RunPorts,
        ledger: Ledger,
        replay: Replay,
        events: EventWriter,
        *,
        redactor: Redactor,
        spending: Spending,
        admission: Admission,
        lease: HeldLease | None,
        parts: Mapping[type[Any], Callable[[Run], Any]],
    ) -> None:
        self.id = ledger.run.run_id
        self.source = source
        self.context = source.context
        """The context of the run for tools and hooks."""
        self.salt = ledger.salt(source.start.salt or self.id, source.start.salt_key)
        """The salt of fingerprints: of the run's own id, or of that of the run it was forked from."""
        self.ports = ports
        self.ledger = ledger
        self.replay = replay
        self.events = events
        self.redactor = redactor
        self.spending = spending
        self.admission = admission
        self.lease = lease
        self.outcomes = Outcomes(ledger, redactor, replay)
        self.telemetry: RunTelemetry = UNOBSERVED
        self.hooks: Hooks | None = None
        self.handles_signals = bool(source.definition.signal_handlers)
        self.at_boundary: Callable[[Effect], Awaitable[None]] | None = None
        """Runs the signal handlers of the agent before an effect that is a boundary of the program."""
        self.read_signals: Callable[[], Awaitable[None]] | None = None
        """Reads the signals that a commit has reported and this attempt does not know."""
        self.warnings: BudgetWarnings | None = None
        self.prompts: PromptSnapshots | None = None
        self.trust: TrustLabel = RUN_INPUT
        """The joined label of everything the program knows by now."""
        self.secrets_to_recall: dict[SecretRef, None] = {}
        """Secrets that replayed calls got, and that may be unknown to the redactor of this attempt; in their order."""
        self.open_streams: list[OpenStream] = []
        self.lost_holds: dict[str, tuple[LostHold, ...]] = {}
        """The holds of tries that ended with an earlier process, by the id of their call."""
        self.is_context_fitted: bool = ledger.is_durable
        """Whether every request is fitted to its context, whatever it asks for."""
        self.speaker: str | tuple[str, int] | None = None
        """The source of the program's words: a message id, or a model call (its action and the epoch)."""
        self._factories = parts
        self._parts: dict[type[Any], Any] = {}

    @property
    def questions(self) -> Questions:
        """The questions of the run to people."""
        return self.part(Questions)

    @property
    def signals(self) -> SignalQueue:
        """The signals that were sent to the run."""
        return self.part(SignalQueue)

    @property
    def context_stage(self) -> ContextStage:
        """Fits requests to the context that models may see."""
        self.is_context_fitted = True
        return self.part(ContextStage)

    def part(self, kind: type[T]) -> T:
        """Return a part that many runs do without; it is made when it is asked for first."""
        try:
            made: T = self._parts[kind]
        except KeyError:
            made = self._parts[kind] = self._factories[kind](self)
        return made

    def release(self) -> None:
        """Drop the parts that refer to this run, so that an attempt that is over is freed without the collector."""
        if self._parts:
            self._parts = {kind: part for kind, part in self._parts.items() if kind in _WITHOUT_RUN}
        self.at_boundary = self.read_signals = self.recall_secrets = None
        self.replay.release()

    @property
    def message_id(self) -> str:
        """The id of the message that the program emits now."""
        speaker = self.speaker
        if speaker is None:
            return f"{self.id}:message"
        return speaker if isinstance(speaker, str) else message_id_of(self.id, *speaker)

    def streams_at(self, path: str) -> list[OpenStream]:
        """Return the streams with replies that must be recorded before another effect begins in their scope."""
        return [stream for stream in self.open_streams if stream.path == path and not stream.is_over]

    def note_stopped(self, effect: Effect) -> None:
        """Remember an effect that is stopped under way, if that is because the run is being cancelled."""
        if self.ledger.state.status is AgentStatus.CANCELLING:
            self.stopped = {**self.stopped, effect.action.id: (effect.action, effect.attempt)}

    def note_open_streams(self) -> None:
        """Remember the streams that are open when the run is cancelled."""
        for stream in self.open_streams:
            if not stream.is_over:
                self.note_stopped(stream.effect)

    def new_media(self, messages: Sequence[ModelMessage]) -> list[MediaPart]:
        """Return the media in the messages of a request, which are new since the last request without any."""
        media = media_after(self._without_media, messages)
        self._without_media = () if media else tuple(messages)
        return media

    def was_asked(self, action_id: str) -> bool:
        """Return whether a person was asked to approve an action: then the answer counts."""
        return self.replay.knows(f"{action_id}/{words.APPROVAL}")

    def action(
        self,
        action_id: str,
        kind: AgentActionKind,
        name: str,
        asked: JsonValue = None,
        view: JsonValue = None,
        idempotency: Idempotency = Idempotency.IDEMPOTENT,
        is_read_only: bool = True,
    ) -> Action:
        """Return an action of this run; that of an ephemeral run needs no fingerprint."""
        is_durable = self.ledger.is_durable
        fingerprint = fingerprint_of(self.salt, action_id, kind, name, asked) if is_durable else ""
        return new_action(action_id, kind, name, asked, view, idempotency, is_read_only, fingerprint)

    def number(self, effect: Effect) -> None:
        """Give a call of the program the next number of its scope.

        Raises:
            RunDiverged: another call is recorded with this number.
        """
        if self.ledger.is_durable and (call := self.replay.make(effect.scope, effect.action)) is not None:
            effect.call, effect.number = call, call.number

    def idempotency_key(self, effect: Effect) -> str:
        """Return the key of an effect: the same for every attempt at it and different from that of any other."""
        return idempotency_key(self.ledger.run, effect.action.id)

    def check_time(self) -> None:
        """Check that the run has time left.

        Raises:
            LimitReached: its time is up.
        """
        deadline = self.source.deadline
        if deadline is not None and (late := timed_out(deadline, self.ports.clock.now())) is not None:
            raise late

    def go_live(self) -> None:
        """Treat every event from now on as new, once all recorded actions were requested."""
        if self.replay.is_used_up:
            self.events.go_live()

    def mark_running(self) -> None:
        """Move a run that waited to RUNNING."""
        state = self.ledger.state
        if state.status is AgentStatus.INTERRUPTED:
            self.ledger.change_state(state.moved_to(AgentSituation.RUNNING))

    async def ensure_lease(self) -> None:
        """Wait until this process certainly holds the lease.

        Raises:
            RunOwnershipLost: another process has the run.
        """
        while self.lease is not None and not self.lease.is_certain:
            # Frozen for so long that another process may have taken over: only a commit after a new lease decides.
            await self.lease.renew()
            await self.ledger.prove_ownership()

    def learn(self, effect: Effect) -> None:
        """Join the label of an effect's result with the label of the run; its record will have what was learned.

        A label that has changed since the effect began to act was learned inside of it.
        """
        label, before = effect.result_label, effect.under
        if label is not None:
            is_inside = before is not None and self.trust is not before
            self.trust = self.trust.join(label)
            effect.learned = self.trust if is_inside else label
        elif before is not None and self.trust is not before:
            effect.learned = self.trust

    def learn_cut(self, effect: Effect) -> None:
        """Join the label of an effect that was refused or cut short: one that has not acted has read nothing."""
        if effect.has_acted:
            self.learn(effect)
        elif effect.result_label is not None:
            effect.learned = _NEUTRAL

    def learn_record(self, effect: Effect, row: JournalRow) -> None:
        """Join the label in the record of an outcome; that of a record without one is by today's declaration."""
        record = record_of(row)
        label = label_in(record) if words.TRUST in record else effect.result_label
        if label is not None:
            self.trust = self.trust.join(label)

    def learn_folded(self, tool: AgentToolDescriptor, row: JournalRow) -> None:
        """Count the outcome of a tool call in a folded turn: its cost, its label and its secrets."""
        self.spending.absorb(ONE_TOOL_CALL)
        record = record_of(row)
        label = label_in(record) if words.TRUST in record else tool.result_label
        if label is not None:
            self.trust = self.trust.join(label)
        if tool.secrets:
            self.secrets_to_recall.update(dict.fromkeys(secrets_of_outcome(row, tool)))

    def learn_inside(self, effect: Effect) -> None:
        """Count the spending and join the labels inside an effect that replay does not enter."""
        if rows := self.replay.inside(effect.action.id):
            count_rows(rows, self.spending)
            self.trust = self.trust.join(label_of_rows(rows))
            self.recall_inside(rows)
            for row, change in recorded_changes(rows):
                self.part(SharedState).change(change, row.seq)
                if self.events.holds_all:
                    self.events.write(event_of(change, row.action_id, self.source.attribution))

    def recall_inside(self, rows: Iterable[JournalRow]) -> None:
        """Recall the secrets of calls that replay does not enter before anything new is shown."""
        self.secrets_to_recall.update(dict.fromkeys(recorded_secrets(rows)))

    def learn_given(self, effect: Effect) -> None:
        """Join the label of a result that a reconciler or a person gave, and those of the calls made inside before."""
        effect.under = effect.under or self.trust
        inside = self.replay.inside(effect.action.id)
        self.trust = self.trust.join(label_of_rows(inside))
        self.recall_inside(inside)
        if effect.descriptor is not None and effect.descriptor.secrets:
            self.secrets_to_recall.update(dict.fromkeys(secret_refs(effect.descriptor).values()))
        self.learn(effect)

    def count_reused(self, effect: Effect, row: JournalRow) -> None:
        """Count a recorded outcome that the program gets: its cost, its label and its secrets."""
        if effect.kind.counts is not NOTHING:
            self.spending.absorb(effect.kind.counts)
        if effect.kind.is_call:
            self.learn_record(effect, row)
            self.learn_inside(effect)
            if effect.descriptor is not None and effect.descriptor.secrets:
                self.secrets_to_recall.update(dict.fromkeys(secrets_of_outcome(row, effect.descriptor)))

    def note_state(self, item: State | StatePatch) -> None:
        """Add a change that the program yields to the state that tools and programs read."""
        self.part(SharedState).change(change_of(item), None)

    def learn_from_signals(self) -> None:
        """Join the labels of the signals that were taken in."""
        if self.signals.trust is not None:
            self.trust = self.trust.join(self.signals.trust)


@value
class LiveRun:
    """A run under way in this process: its task, and how it is reached from outside.

    `cancel_unstored` is for the cancellation of a parent, which is no signal in the store.
    """

    run: Run
    task: asyncio.Task[RunResult]
    cancel: Callable[[AgentSignal], Awaitable[bool]]
    cancel_unstored: Callable[[AgentSignal], Awaitable[bool]]
    receive: Callable[[AgentSignal], None]
    hand_over: Callable[[], None]
    is_ending: Callable[[], bool]

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.run.id

    def stop(self) -> None:
        """Stop the attempt, not its run: the program has cut none of its calls short."""
        self.run.replay.liveness.stopping()
        self.task.cancel()


new_live_run = unchecked(LiveRun)
