"""Effects: what a run asks of the world, how it is recorded and read back, and the secrets that an outcome names.

An effect is performed by `door.perform` and nowhere else. The kinds are subclasses, each in the room of its subject.

Replay passes over calls inside of folded branches and recorded tools. By the names of the secrets in their records the
attempt asks for their secrets again before it shows anything new, so that it masks them as the attempt before did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import Task
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.ports.budget import BudgetAmount, BudgetReservation
from pilotage.agent.ports.journal import OutboxEvent
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.declared_errors import NO_ERRORS, DeclaredErrors
from pilotage.errors import AgentStructuredOutputError, ToolError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.divergence import Sides, asked_side, asking_line
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.positions import Call
from pilotage.runtime.journal.record_fields import object_or_empty, optional_text, texts_field
from pilotage.runtime.journal.result_codec import AS_JSON, ResultCodec, decode_error
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.safety.fields import SecretRef
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

NOTHING = BudgetAmount()
ONE_STEP = BudgetAmount(steps=1)
ONE_TOOL_CALL = BudgetAmount(tool_calls=1)


class EffectKind:
    """A kind of effect, with the facts that all effects of the kind share.

    Which stages of the admission look at a kind is a table in `door.admission`.
    """

    __slots__ = ("counts", "is_call", "is_tracked", "name")

    def __init__(
        self,
        name: str,
        *,
        is_call: bool = False,
        is_tracked: bool = True,
        counts: BudgetAmount = NOTHING,
    ) -> None:
        self.name = name
        self.is_call = is_call
        """Whether it is a call of the program: a boundary, where open streams end first and signal handlers run, and
        whose errors are outcomes."""
        self.is_tracked = is_tracked
        """Whether the attempt keeps track of it: refused once the attempt ends, waited for before it has ended."""
        self.counts = counts
        """The amount that a recorded one adds to the spending of its run."""

    def __repr__(self) -> str:
        return f"EffectKind({self.name!r})"


TOOL_CALL = EffectKind("tool_call", is_call=True, counts=ONE_TOOL_CALL)
STEP = EffectKind("step", is_call=True)
VALUE = EffectKind("value", is_call=True)
CHILD = EffectKind("child", is_call=True)
MODEL_CALL = EffectKind("model_call", counts=ONE_STEP)
SUMMARY = EffectKind("summary", counts=ONE_STEP)
CONTEXT_CHANGE = EffectKind("context_change")
CONTEXT_INPUT = EffectKind("context_input")
PUBLICATION = EffectKind("publication", is_tracked=False)
QUESTION = EffectKind("question", is_tracked=False)
SIGNAL = EffectKind("signal")
DISCARDED_TRY = EffectKind("discarded_try", is_tracked=False)
HOLD = EffectKind("hold", is_tracked=False)
RESUMPTION = EffectKind("resumption", is_tracked=False)


@value
class Outcome:
    """The outcome of an effect: the record for replay, the view for readers, and the program's own value.

    `added` is shown to readers besides the view and is not part of the record.
    """

    record: JsonObject
    view: JsonObject
    result: object
    added: JsonObject | None = None


new_outcome = unchecked(Outcome)

NO_OUTCOME = object()
"""The result of an effect that turned out to have nothing to do: no row is written for it."""


@value
class Wanted:
    """The answer that an effect waits for: the text of its question, and the schema of what a person gives."""

    text: str
    schema: JsonObject


@value
class Ask:
    """The request of an admission stage to ask a person; an approval handler may word the question."""

    reason: str | None = None
    question: AgentApprovalRequest | None = None


class Effect(ABC):
    """One effect of a run: the action it is recorded as, and how it is carried out.

    The defaults are those of an effect without tool, approval or recovery of its own. The stages of the admission set
    `ask`, `arguments` and `reservation`.
    """

    kind: EffectKind
    boundary: AgentApprovalBoundaryKind = AgentApprovalBoundaryKind.EXTERNAL_SIDE_EFFECT
    """The approval boundary that a question about it names."""
    descriptor: AgentToolDescriptor | None = None
    agent: str | None = None
    """The id of the agent that a delegation goes to."""
    result_label: TrustLabel | None = None
    """The declared label of its result and of its failure; None for one that changes nothing."""
    under: TrustLabel | None = None
    """The label of the run when it began to act."""
    learned: TrustLabel | None = None
    """The label that its record gets: of its result, and of what was learned inside of it."""
    call_id: str | None = None
    """The id that a model gave the call, where a model asked for it."""
    is_counted: bool = False
    """Whether it was counted against the limits before, together with the calls beside it."""
    is_deferred: bool = False
    """Whether the caller of the run carries it out, and the run waits for the result."""
    wanted: Wanted | None = None
    """The answer that it waits for, where it is a question of the program to a person."""
    begins: OutboxEvent | None = None
    """The fact that becomes true when it begins."""
    reconcile: Callable[[str], Awaitable[object]] | None = None
    """Finds out by the idempotency key what became of an attempt."""
    attempt: int = 1
    """The number of the attempt at it: a person who decides on a retry gives it a new one."""
    decisions: tuple[ApprovalDecision, ...] | None = None
    """The answers that a person may give; None for all that fit."""
    when_answered: Callable[[JsonObject], None] | None = None
    """Moves the run by the answer of a person, in the same commit; None for one with which the run is running again."""
    ask: Ask | None = None
    """The question to put to a person first, because the effect or a stage of the admission demands it."""
    is_optional: bool = False
    """Whether a person who rejects it only leaves it out, whatever the agent's policy says."""
    arguments: JsonObject | None = None
    """Arguments instead of the requested ones: a person changed them, or an earlier attempt was executed with them."""
    codec: ResultCodec = AS_JSON
    """How its results are recorded and read back."""
    errors: DeclaredErrors = NO_ERRORS
    """The errors that are recorded with their class."""
    doubt: str | None = None
    """Why its outcome is unknown, for the person who is asked about it."""
    reservation: BudgetReservation | None = None
    """The reservation in the application's budget until it is settled."""
    settle_with: Callable[[BudgetReservation, BudgetAmount], Awaitable[None]] | None = None
    has_row: bool = False
    """Whether its outcome has a row already, without the record: it could not be sealed, and is asked for again."""
    is_recorded: bool = True
    """Whether its outcome is a row of its own when `act` returns; a stream is recorded when it ends."""

    task: Task[object] | None = None
    """The task that performs it; None for one that is not tracked."""
    call: Call | None = None
    """Its position among the calls of a durable run; None for one that is no call of the program."""
    number: int = 0
    """The number of the call that it is or belongs to, which its rows have."""
    got_secrets: tuple[str, ...] = ()
    """The ids of the secrets that it was given."""
    has_acted: bool = False
    """Whether it may have taken effect in this attempt."""
    is_asked_ahead: bool = False
    """Whether the question about it was asked before it could begin."""
    is_replayed_early: bool = False
    """Whether a part of its outcome is given before its turn: the text of a stream."""
    when_parked: Callable[[], None] | None = None
    """Called when it begins to wait for an event outside of the run."""

    def __init__(self, scope: StepScope, action: Action) -> None:
        self.scope = scope
        self.action = action

    async def settle(self, used: BudgetAmount) -> None:
        """Report the amount that the effect really used to the application's budget, once."""
        reservation, self.reservation = self.reservation, None
        if reservation is not None and self.settle_with is not None:
            await self.settle_with(reservation, used)

    @property
    def asked_about(self) -> Action:
        """The action as a question about it shows it, and to which the answer is bound."""
        return self.action

    @abstractmethod
    def act(self) -> Awaitable[object]:
        """Perform the effect; the result may be an `Outcome` with its own record."""

    def view_of(self, result: JsonValue) -> JsonObject:
        """Return the view of the result, which is given as JSON."""
        return {words.RESULT: result}

    def reuse(self, record: JsonObject) -> object:
        """Return the recorded outcome as the program got it.

        Raises:
            RunError: the effect failed: a declared error, one of the library's own, or a plain `ToolError`.
            RunDiverged: the result is not of the declared type (any more).
        """
        if optional_text(record, words.ERROR) is not None:
            raise decode_error(record, self.errors)
        try:
            return self.codec.read(record)
        except AgentStructuredOutputError as error:
            difference = (
                f"the recorded result of {self.action.name!r} does not fit its declared type: {error}"
            )
            raise RunDiverged(self.action.id, difference, self.sides()) from error

    def sides(self) -> Sides:
        """Return the sides of a divergence of the effect from its own record: the call is the recorded one."""
        call = asked_side(self.action, self.number)
        return Sides(replace(call, fingerprint=""), call, asking_line())

    def repeat_with(self, arguments: JsonObject | None) -> None:
        """Use the arguments of an earlier attempt; None for the requested ones.

        Raises:
            RunDiverged: the effect does not take them any more.
        """
        self.arguments = arguments

    def asked(self) -> tuple[JsonObject, JsonObject]:
        """Return record and view of the row that is written before the effect begins."""
        record: dict[str, JsonValue] = {words.ASKED: self.action.asked}
        view: dict[str, JsonValue] = {words.ASKED: self.action.view}
        if self.arguments is not None and self.arguments != self.action.asked:
            record[words.EXECUTED], view[words.EXECUTED] = self.arguments, self.shown(self.arguments)
        if self.reconcile is not None:
            record[words.RECONCILES] = view[words.RECONCILES] = True
        return record, view

    def shown(self, arguments: JsonObject) -> JsonValue:
        """Return the view of arguments."""
        return arguments

    def refused(self, reason: str) -> Exception:
        """Return the error that the program gets when the effect must not begin."""
        return ToolError(f"{self.action.name!r} is not allowed: {reason}")

    def cut_record(self) -> JsonObject:
        """Return the record of an outcome that the program cut short."""
        return {words.CUT_SHORT: True}

    async def abandon(self) -> None:
        """Stop what goes on outside of the run for a call that its program cut short; for most calls nothing does."""
        return

    def rejected(self, rejection: ToolError) -> BaseException:
        """Return the error for an effect that a person rejects in a run that continues."""
        return rejection

    @property
    def tool_name(self) -> str | None:
        """The tool that is called, where it is one."""
        return self.action.name if self.descriptor is not None else None


class PlainEffect(Effect):
    """An effect that a function carries out: a step, a value from outside, a child run."""

    def __init__(
        self,
        kind: EffectKind,
        scope: StepScope,
        action: Action,
        act: Callable[[], Awaitable[object]],
        codec: ResultCodec = AS_JSON,
    ) -> None:
        self.scope = scope
        self.action = action
        self.kind = kind
        self.codec = codec
        self._act = act

    def act(self) -> Awaitable[object]:
        return self._act()


def secret_refs(tool: AgentToolDescriptor) -> dict[str, SecretRef]:
    """Return the references of a tool's secrets, by the names of its parameters."""
    return {name: SecretRef(field.label or name) for name, field in tool.secrets.items()}


def naming_secrets(outcome: Outcome, ids: Sequence[str]) -> Outcome:
    """Return the outcome of a tool with the names of the secrets that it got, in the record and in the view."""
    named: JsonObject = {words.SECRETS: list(ids)}
    return replace(outcome, record={**outcome.record, **named}, view={**outcome.view, **named})


def recorded_secrets(rows: Iterable[JournalRow]) -> Iterator[SecretRef]:
    """Yield the references of the secrets that recorded calls got."""
    for row in rows:
        if row.kind is AgentActionKind.TOOL_CALL:
            yield from _in_record(object_or_empty(row.record)) or ()


def secrets_of_outcome(row: JournalRow, tool: AgentToolDescriptor) -> Iterable[SecretRef]:
    """Return the references of the secrets that a call got; earlier versions did not name them."""
    named = _in_record(object_or_empty(row.record))
    return secret_refs(tool).values() if named is None else named


def _in_record(record: JsonObject) -> list[SecretRef] | None:
    return [*map(SecretRef, texts_field(record, words.SECRETS))] if words.SECRETS in record else None
