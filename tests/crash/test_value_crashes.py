"""Values, errors and arguments are the same after a crash at any commit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ToolError
from pilotage.runtime import step
from pilotage.testing import crash_matrix

OUTSIDE, UNASKED = ToolEffects.external_side_effect(), ToolApprovalRequirement.NOT_REQUIRED


@dataclass
class Parcel:
    weight: Decimal


@dataclass
class HeavyParcel(Parcel):
    crane: str = "big"


class NoRoom(ToolError):  # noqa: N818 - as people name them
    def __init__(self, left: Decimal) -> None:
        super().__init__(f"{left} left")
        self.left = left


class Harbour:
    """What is outside: it notes what was loaded under which key."""

    def __init__(self) -> None:
        self.loaded: dict[str, tuple[Decimal, str]] = {}


@Pod
class Cranes:
    def __init__(self, harbour: Harbour) -> None:
        self.harbour = harbour

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def weigh(self, number: int) -> Parcel:
        """Return a subclass of what is declared."""
        return HeavyParcel(Decimal("1.50") * number)

    @agent_tool(
        effects=OUTSIDE,
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNASKED,
        errors=[NoRoom],
        reads_untrusted=False,
    )
    async def load(
        self, parcel: Parcel, runtime_context: AgentToolRuntimeContext, place: str = "deck"
    ) -> Decimal:
        """Load a parcel, unless it is too heavy."""
        if parcel.weight > 2:
            raise NoRoom(Decimal("0.50"))
        self.harbour.loaded[runtime_context.idempotency_key] = (parcel.weight, place)
        return parcel.weight


def _price(weight: Decimal) -> Decimal:
    return weight * 4


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Loading:
    def __init__(self, cranes: Cranes) -> None:
        self.cranes = cranes

    async def execute(self) -> str:
        parcel = await self.cranes.weigh(3)
        try:
            loaded = await self.cranes.load(parcel)
        except NoRoom as error:
            loaded = await self.cranes.load(Parcel(error.left))
        price = await step("price", partial(_price, loaded))
        facts = await step(
            "facts", lambda: {"price": price, "raw": [b"\x00"]}, idempotency=Idempotency.IDEMPOTENT
        )
        return f"{type(parcel).__name__} {loaded * 2} {facts['price'] * 2} {facts['raw']}"


async def test_a_crash_at_any_commit_changes_no_value() -> None:
    report = await crash_matrix(Loading, add=[Harbour(), Cranes])
    assert report.reference.output == "Parcel 1.00 4.00 [b'\\x00']"
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert report.points > 10
