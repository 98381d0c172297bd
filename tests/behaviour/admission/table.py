"""Which stages look at each kind of effect, in which order, and what a refusal costs. Data only.

Every effect is admitted by the stages that look at its kind, in one order: alive, switch, deadline, permission, trust,
hooks, limits, budget, approval. The one exception: the tool calls of one reply are counted together, all or none,
before the first of them is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.behaviour.admission.stages import Stage

_ALIVE, _SWITCH, _DEADLINE = Stage.ALIVE, Stage.SWITCH, Stage.DEADLINE
_PERMISSION, _TRUST, _HOOKS = Stage.PERMISSION, Stage.TRUST, Stage.HOOKS
_LIMITS, _BUDGET, _APPROVAL = Stage.LIMITS, Stage.BUDGET, Stage.APPROVAL

Order: TypeAlias = tuple[Stage, ...]


@dataclass(frozen=True)
class AdmissionRow:
    """The stages that look at a kind of effect, the first one first; those that are missing do not look at it."""

    effect: str
    order: Order


_EVERY_STAGE: Order = tuple(Stage)
_OF_STEPS: Order = (_ALIVE, _SWITCH, _DEADLINE, _PERMISSION, _HOOKS, _APPROVAL)
_OF_MODELS: Order = (_ALIVE, _SWITCH, _DEADLINE, _HOOKS, _LIMITS, _BUDGET, _APPROVAL)
_OPEN_ACTION: Order = (_ALIVE, _SWITCH, _DEADLINE)

ORDERS: tuple[AdmissionRow, ...] = (
    AdmissionRow("tool call of a model", _EVERY_STAGE),
    AdmissionRow("tool call of a program", _EVERY_STAGE),
    AdmissionRow(
        "tool calls of one reply",
        (_LIMITS, *(stage for stage in _EVERY_STAGE if stage is not _LIMITS)),
    ),
    AdmissionRow("step", _OF_STEPS),
    AdmissionRow("child run", _OF_STEPS),
    AdmissionRow("teammate asked by a model", _OF_STEPS),
    AdmissionRow("value", _OF_STEPS),
    AdmissionRow("model call", _OF_MODELS),
    AdmissionRow("streamed model call", _OF_MODELS),
    AdmissionRow("summary", _OF_MODELS),
    AdmissionRow("context change", (_ALIVE, _APPROVAL)),
    # The answer of an attempt that is ending: a requested pause or a passed deadline does not hold it back.
    # A pause that came before the end is honoured instead of it.
    AdmissionRow("publication", (_ALIVE, _SWITCH, _APPROVAL)),
    AdmissionRow("signal taken in", (_ALIVE, _DEADLINE)),
    # A question is part of the call that it is about, which was admitted.
    AdmissionRow("question about an unknown outcome", ()),
    # An action that was begun is the same attempt: it is not gated a second time.
    AdmissionRow("repetition after a crash", _OPEN_ACTION),
    AdmissionRow("question after a crash", _OPEN_ACTION),
)

Amount: TypeAlias = tuple[int, int]
"""Model calls and tool calls."""


@dataclass(frozen=True)
class RefusalRow:
    """What a run has spent in all when a stage refused its last effect.

    `charged` is what the application's budget was told, `counted` what the limits of the run count.
    """

    effect: str
    refused_by: Stage
    charged: Amount
    counted: Amount


def _refusal(effect: str, refused_by: Stage, *, charged: Amount, counted: Amount) -> RefusalRow:
    return RefusalRow(effect, refused_by, charged, counted)


_OF_A_PROGRAM, _OF_A_MODEL = "tool call of a program", "tool call of a model"

REFUSALS: tuple[RefusalRow, ...] = (
    # One tool call came before. A denied call is recorded, and what is recorded counts, now and in replay.
    *(
        _refusal(_OF_A_PROGRAM, stage, charged=(0, 1), counted=(0, 2))
        for stage in (_PERMISSION, _TRUST, _HOOKS)
    ),
    _refusal(_OF_A_PROGRAM, _DEADLINE, charged=(0, 1), counted=(0, 1)),
    _refusal(_OF_A_PROGRAM, _LIMITS, charged=(0, 1), counted=(0, 1)),
    _refusal(_OF_A_PROGRAM, _BUDGET, charged=(0, 1), counted=(0, 1)),
    # Two model calls and a tool call came before; the model is told of the refusal by a third one.
    *(
        _refusal(_OF_A_MODEL, stage, charged=(3, 1), counted=(3, 2))
        for stage in (_PERMISSION, _TRUST, _HOOKS)
    ),
    _refusal(_OF_A_MODEL, _LIMITS, charged=(2, 1), counted=(2, 1)),
    _refusal(_OF_A_MODEL, _BUDGET, charged=(2, 1), counted=(2, 1)),
    # All tool calls of a reply are counted before the first is refused; those that do not begin are given back.
    _refusal("tool calls of one reply", _BUDGET, charged=(2, 1), counted=(2, 1)),
    # A tool call and a model call came before; a denied model call is recorded too.
    _refusal("model call", _HOOKS, charged=(1, 1), counted=(2, 1)),
    _refusal("model call", _BUDGET, charged=(1, 1), counted=(1, 1)),
    _refusal("model call", _LIMITS, charged=(1, 1), counted=(1, 1)),
    _refusal("streamed model call", _HOOKS, charged=(1, 1), counted=(2, 1)),
    _refusal("streamed model call", _BUDGET, charged=(1, 1), counted=(1, 1)),
    # A summary that a hook refuses costs nothing; the call itself follows.
    _refusal("summary", _HOOKS, charged=(2, 1), counted=(2, 1)),
    _refusal("summary", _BUDGET, charged=(1, 1), counted=(1, 1)),
    _refusal("summary", _LIMITS, charged=(1, 1), counted=(1, 1)),
)


@dataclass(frozen=True)
class WarningRow:
    """Whether readers are warned when an effect takes the last of a limit."""

    effect: str
    is_warned: bool


WARNINGS: tuple[WarningRow, ...] = (
    WarningRow("tool call of a model", is_warned=True),
    WarningRow("tool call of a program", is_warned=True),
    WarningRow("tool calls of one reply", is_warned=True),
    WarningRow("step", is_warned=False),
    WarningRow("child run", is_warned=False),
    WarningRow("model call", is_warned=True),
    WarningRow("streamed model call", is_warned=True),
    WarningRow("summary", is_warned=True),
)
