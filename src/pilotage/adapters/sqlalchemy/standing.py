"""What has to be known of runs to decide about commits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pilotage.adapters.sqlalchemy.mapping import NO_STATE
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.state import AgentStatus

Action: TypeAlias = tuple[str, str, int]
"""What an action has one row for: its id, the stage and the attempt."""

# Made for every run: calling `dict[str, int]` takes seven times as long as calling `dict`.
_no_receipts: Callable[[], dict[str, tuple[int, int]]] = dict
_no_actions: Callable[[], set[Action]] = set


@dataclass
class Standing:
    """How a run stands: as it was stored, and as the commits of the batch leave it.

    `receipts` has the head and the epoch behind each token that is known. `actions` are those that are recorded
    already, as far as anybody looked: most of the time nobody does, because the unique key of the table says so too.
    """

    stored_head: int = 0
    head: int = 0
    epoch: int = 0
    digest: str = ""
    status: AgentStatus | None = None
    conversation: str | None = None
    parent: str | None = None
    facts: int = 0
    is_stored: bool = False
    state: Mapping[str, Any] = field(default_factory=lambda: NO_STATE)
    receipts: dict[str, tuple[int, int]] = field(default_factory=_no_receipts)
    actions: set[Action] = field(default_factory=_no_actions)

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows any more."""
        return self.status is not None and self.status.is_terminal


class Known:
    """What has to be known to decide: of runs and parents, signals, conversations, and evidence that is looked for."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, Standing] = {}
        self.pending: set[tuple[RunKey, str]] = set()
        self.holders: dict[tuple[str, str], str] = {}
        self.evidence: set[tuple[str, str]] = set()
