"""Revisions of steering instructions: what a sender sends, and which revision of an input counts. Pure: no I/O.

A revision is a `steering_instruction` signal whose payload names its input and its number. Of an input the newest
revision counts: it supersedes the earlier ones, in whatever order they come. A draft (`final=False`) and a withdrawal
supersede earlier revisions and are never shown to the model; a newer final revision is. Once the run has taken an input
in, every other revision of it is too late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.agent.signals import AgentSignal, AgentSignalKind, words_of
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.values import value

INPUT_ID, REVISION, FINAL, WITHDRAWN = "input_id", "revision", "final", "withdrawn"
"""The keys that a revision has in the payload of its signal, besides the `text`."""

STEERING_ID = "steering:"
"""How the ids begin of signals with revisions that `signal_id` makes."""


@value
class AgentSteeringUpdate:
    """One revision of a steering instruction.

    `input_id` names the instruction for all of its revisions. With `final=False` it is a draft: the run uses neither it
    nor an earlier revision. With `withdrawn` the instruction is taken back, and needs no text.
    """

    input_id: str
    text: str | None = None
    revision: int = 1
    final: bool = True
    withdrawn: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, input_id=self.input_id)
        reject_not_positive(self, revision=self.revision)
        if not self.withdrawn and (self.text is None or not self.text.strip()):
            raise AgentDefinitionError(
                f"AgentSteeringUpdate.text of input {self.input_id!r} says nothing. "
                "Give it a text that is not blank, or withdrawn=True."
            )

    @property
    def is_used(self) -> bool:
        """Whether a run takes the text in: it is final, and not withdrawn."""
        return self.final and not self.withdrawn

    def to_payload(self) -> JsonObject:
        """Return the payload of the signal that carries this revision."""
        payload: dict[str, JsonValue] = {INPUT_ID: self.input_id, REVISION: self.revision}
        if self.text is not None:
            payload["text"] = self.text
        return {**payload, FINAL: self.final, WITHDRAWN: self.withdrawn}

    def signal_id(self, run_id: str) -> str:
        """Return the id of its signal: the same revision of an input, sent again to the run, is stored once."""
        return f"{STEERING_ID}{run_id}:{self.input_id}:{self.revision}"

    @classmethod
    def from_payload(cls, payload: JsonObject) -> AgentSteeringUpdate | None:
        """Return the revision in the payload of a steering instruction; None for an instruction without an input id.

        Raises:
            CallerError: it names an input, and is no revision of it.
        """
        if INPUT_ID not in payload:
            return None
        input_id, revision = payload[INPUT_ID], payload.get(REVISION, 1)
        final, withdrawn = payload.get(FINAL, True), payload.get(WITHDRAWN, False)
        is_number = isinstance(revision, int) and not isinstance(revision, bool)
        if (
            isinstance(input_id, str)
            and is_number
            and isinstance(revision, int)
            and isinstance(final, bool)
            and isinstance(withdrawn, bool)
        ):
            try:
                return cls(input_id, words_of(payload), revision, final, withdrawn)
            except AgentDefinitionError as error:
                raise CallerError(str(error)) from error
        raise CallerError(
            f"a steering instruction names the input {input_id!r} and is no revision of it. Its {REVISION!r} is a "
            f"positive number, {FINAL!r} and {WITHDRAWN!r} are true or false."
        )


@value
class InputProgress:
    """The newest revision of an input that a run has processed, and whether it took the text of one in."""

    revision: int
    is_taken: bool = False


@dataclass
class SteeringSettlement:
    """What becomes of pending revisions.

    `usable` ones wait for a boundary of the run. `noted` ones have had their effect: drafts and withdrawals.
    `superseded` ones have a newer revision. `late` ones belong to an input that was taken in.
    """

    usable: list[AgentSignal] = field(default_factory=list[AgentSignal])
    noted: list[AgentSignal] = field(default_factory=list[AgentSignal])
    superseded: list[AgentSignal] = field(default_factory=list[AgentSignal])
    late: list[AgentSignal] = field(default_factory=list[AgentSignal])


def update_of(signal: AgentSignal) -> AgentSteeringUpdate | None:
    """Return the revision that a stored signal carries; None for any other signal, and for one that is none."""
    if signal.kind is not AgentSignalKind.STEERING_INSTRUCTION or INPUT_ID not in signal.payload:
        return None
    try:
        return AgentSteeringUpdate.from_payload(signal.payload)
    except CallerError:
        return None


def settle_revisions(
    pending: Sequence[AgentSignal], known: Mapping[str, InputProgress]
) -> SteeringSettlement:
    """Decide about pending signals, in queue order; signals without a revision are usable.

    `known` has the inputs of which the run has processed a revision. Of equal revisions the first one counts.
    """
    updates = {signal.id: update for signal in pending if (update := update_of(signal)) is not None}
    newest = {name: progress.revision for name, progress in known.items()}
    counts: dict[str, str] = {}
    for signal_id, update in updates.items():
        if update.revision > newest.get(update.input_id, 0):
            newest[update.input_id] = update.revision
            counts[update.input_id] = signal_id
    settled = SteeringSettlement()
    for signal in pending:
        update = updates.get(signal.id)
        if update is None:
            settled.usable.append(signal)
        elif update.input_id in known and known[update.input_id].is_taken:
            settled.late.append(signal)
        elif counts.get(update.input_id) != signal.id:
            settled.superseded.append(signal)
        else:
            (settled.usable if update.is_used else settled.noted).append(signal)
    return settled


def progress_after(signals: Collection[AgentSignal], *, is_taken: bool) -> dict[str, InputProgress]:
    """Return the progress of the inputs whose revisions a run has taken in or noted."""
    updates = [update for signal in signals if (update := update_of(signal)) is not None]
    return {update.input_id: InputProgress(update.revision, is_taken) for update in updates}
