"""Which stages look at each kind of effect, in which order, and what a refusal costs. Data only.

`today` is what the running code does. `one_order` is what it does once every effect is admitted by one tuple of
stages: alive, switch, deadline, permission, trust, hooks, limits, budget, approval. Rows that are equal in both do not
change.
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
    today: Order
    one_order: Order

    @property
    def is_changed(self) -> bool:
        """Whether the one order changes the row."""
        return self.today != self.one_order


_EVERY_STAGE: Order = tuple(Stage)
_OF_TOOLS: Order = (
    _ALIVE,
    _SWITCH,
    _DEADLINE,
    _BUDGET,
    _LIMITS,
    _TRUST,
    _PERMISSION,
    _HOOKS,
    _APPROVAL,
)
_OF_STEPS: Order = (_ALIVE, _SWITCH, _DEADLINE, _PERMISSION, _HOOKS, _APPROVAL)
_OF_MODELS: Order = (_ALIVE, _SWITCH, _DEADLINE, _LIMITS, _BUDGET, _APPROVAL, _HOOKS)
_MODELS_IN_ONE_ORDER: Order = (_ALIVE, _SWITCH, _DEADLINE, _HOOKS, _LIMITS, _BUDGET, _APPROVAL)
_OPEN_ACTION: Order = (_ALIVE, _SWITCH, _DEADLINE)

ORDERS: tuple[AdmissionRow, ...] = (
    AdmissionRow("tool call of a model", _OF_TOOLS, _EVERY_STAGE),
    AdmissionRow("tool call of a program", _OF_TOOLS, _EVERY_STAGE),
    # The tool calls of one reply are counted together, before the first of them is looked at.
    AdmissionRow(
        "tool calls of one reply",
        (_LIMITS, _ALIVE, _SWITCH, _DEADLINE, _BUDGET, _TRUST, _PERMISSION, _HOOKS, _APPROVAL),
        _EVERY_STAGE,
    ),
    AdmissionRow("step", _OF_STEPS, _OF_STEPS),
    AdmissionRow("child run", _OF_STEPS, _OF_STEPS),
    AdmissionRow("teammate asked by a model", _OF_STEPS, _OF_STEPS),
    AdmissionRow("value", _OF_STEPS, _OF_STEPS),
    AdmissionRow("model call", _OF_MODELS, _MODELS_IN_ONE_ORDER),
    AdmissionRow("streamed model call", _OF_MODELS, _MODELS_IN_ONE_ORDER),
    AdmissionRow("summary", (_SWITCH, _LIMITS, _BUDGET, _HOOKS), _MODELS_IN_ONE_ORDER),
    AdmissionRow("context change", (_APPROVAL,), (_ALIVE, _SWITCH, _DEADLINE, _APPROVAL)),
    AdmissionRow("publication", (_SWITCH, _APPROVAL), (_ALIVE, _SWITCH, _DEADLINE, _APPROVAL)),
    AdmissionRow("signal taken in", (_ALIVE, _DEADLINE), (_ALIVE, _SWITCH, _DEADLINE)),
    # A question is part of the call that it is about, which was admitted.
    AdmissionRow("question about an unknown outcome", (), ()),
    # An action that was begun is the same attempt: it is not gated a second time.
    AdmissionRow("repetition after a crash", _OPEN_ACTION, _OPEN_ACTION),
    AdmissionRow("question after a crash", _OPEN_ACTION, _OPEN_ACTION),
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
    charged_in_one_order: Amount
    counted_in_one_order: Amount


def _refusal(
    effect: str,
    refused_by: Stage,
    *,
    charged: Amount,
    counted: Amount,
    charged_in_one_order: Amount | None = None,
    counted_in_one_order: Amount | None = None,
) -> RefusalRow:
    return RefusalRow(
        effect, refused_by, charged, counted, charged_in_one_order or charged, counted_in_one_order or counted
    )


_OF_A_PROGRAM, _OF_A_MODEL = "tool call of a program", "tool call of a model"

REFUSALS: tuple[RefusalRow, ...] = (
    # One tool call came before; a refused one counts against the limit today.
    *(
        _refusal(_OF_A_PROGRAM, stage, charged=(0, 1), counted=(0, 2), counted_in_one_order=(0, 1))
        for stage in (_PERMISSION, _TRUST, _HOOKS)
    ),
    _refusal(_OF_A_PROGRAM, _DEADLINE, charged=(0, 1), counted=(0, 1)),
    _refusal(_OF_A_PROGRAM, _LIMITS, charged=(0, 1), counted=(0, 1)),
    _refusal(_OF_A_PROGRAM, _BUDGET, charged=(0, 1), counted=(0, 1)),
    # Two model calls and a tool call came before; the model is told of the refusal by a third one.
    *(
        _refusal(_OF_A_MODEL, stage, charged=(3, 1), counted=(3, 2), counted_in_one_order=(3, 1))
        for stage in (_PERMISSION, _TRUST, _HOOKS)
    ),
    _refusal(_OF_A_MODEL, _LIMITS, charged=(2, 1), counted=(2, 1)),
    _refusal(_OF_A_MODEL, _BUDGET, charged=(2, 1), counted=(2, 1)),
    # All tool calls of a reply are counted before the first is refused, and stay counted when the run ends there.
    _refusal("tool calls of one reply", _BUDGET, charged=(2, 1), counted=(2, 3), counted_in_one_order=(2, 1)),
    # A tool call and a model call came before; the step of a refused model call stays taken today.
    _refusal("model call", _HOOKS, charged=(1, 1), counted=(2, 1), counted_in_one_order=(1, 1)),
    _refusal("model call", _BUDGET, charged=(1, 1), counted=(2, 1), counted_in_one_order=(1, 1)),
    _refusal("model call", _LIMITS, charged=(1, 1), counted=(1, 1)),
    _refusal("streamed model call", _HOOKS, charged=(1, 1), counted=(2, 1), counted_in_one_order=(1, 1)),
    _refusal("streamed model call", _BUDGET, charged=(1, 1), counted=(2, 1), counted_in_one_order=(1, 1)),
    # A summary that a hook refuses is charged today although no model was asked; the call itself follows.
    _refusal(
        "summary",
        _HOOKS,
        charged=(3, 1),
        counted=(3, 1),
        charged_in_one_order=(2, 1),
        counted_in_one_order=(2, 1),
    ),
    _refusal("summary", _BUDGET, charged=(1, 1), counted=(2, 1), counted_in_one_order=(1, 1)),
    _refusal("summary", _LIMITS, charged=(1, 1), counted=(1, 1)),
)


@dataclass(frozen=True)
class WarningRow:
    """Whether readers are warned when an effect takes the last of a limit."""

    effect: str
    today: bool
    one_order: bool


WARNINGS: tuple[WarningRow, ...] = (
    WarningRow("tool call of a model", today=True, one_order=True),
    WarningRow("tool call of a program", today=True, one_order=True),
    WarningRow("tool calls of one reply", today=False, one_order=True),
    WarningRow("step", today=False, one_order=False),
    WarningRow("child run", today=False, one_order=False),
    WarningRow("model call", today=True, one_order=True),
    WarningRow("streamed model call", today=True, one_order=True),
    WarningRow("summary", today=False, one_order=True),
)
