"""A bank behind a page of CopilotKit: `pilotage serve examples.copilotkit.application:app`.

Without a model server the offline model plays the teller: it calls the tool that a message names, with the values that
follow. The page is in this folder; `docs/how-to/use-copilotkit.md` says how to build it.
"""

from __future__ import annotations

from pathlib import Path

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.agui import AGUICompatible
from pilotage.jsonvalue import object_or_empty
from pilotage.models.default import default_model
from pilotage.runtime import patch_state, read_state

LEDGER = Path("ledger.txt")


@Pod
class Payments:
    """Payments, written to a file, so that a second payment could not be overlooked."""

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, account: str) -> int:
        """Return the balance of an account."""
        return 100

    @agent_tool(effects=ToolEffects.read_only())
    async def chosen(self) -> str:
        """Return the balance of the account that the page shows as chosen, and show it there."""
        state = object_or_empty(await read_state())
        account = str(state.get("account", "main"))
        await patch_state([{"op": "add", "path": "/balance", "value": 100}])
        return f"{account} has 100"

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        prompt="Pay {amount} EUR to {to}?",
    )
    def pay(self, to: str, amount: int) -> str:
        """Pay an amount to a person."""
        with LEDGER.open("a") as ledger:
            ledger.write(f"{amount} to {to}\n")
        return f"paid {amount} to {to}"


@AGUICompatible("/teller")
@Agent(
    spec=AgentExecutionSpec(
        name="teller",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        # What a second tab says while the teller works reaches that run.
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
    )
)
class Teller:
    """Help the customer with payments."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


app = Application("bank").add(Teller, Payments, *default_model()).load_plugins()
