"""A support desk behind HTTP: four tools, refunds that a person approves, runs in SQLite, two tenants."""

from fastapi import FastAPI

from pilotage import Agent, Application, OfflineModel, Principal, ToolEffects, agent_tool, get_run_context
from pilotage.adapters.fastapi import BearerTokens, agent_routes, pilotage_lifespan

SHOPS = {"acme": {"A-17": 12.50, "A-18": 5.0}, "globex": {"B-3": 99.0}}


@Agent(durable=True, max_steps=10)
class Support:
    """Help customers with their orders. Refund what they are owed."""

    @agent_tool(effects=ToolEffects.read_only())
    def list_orders(self) -> list[str]:
        """List all orders."""
        return list(SHOPS[get_run_context().tenant_id])

    @agent_tool(effects=ToolEffects.read_only())
    def price(self, order: str) -> float | None:
        """Look up what an order has cost."""
        return SHOPS[get_run_context().tenant_id].get(order)

    @agent_tool(effects=ToolEffects.read_only())
    def opening_hours(self) -> str:
        """Say when the shop is open."""
        return "Monday to Friday, 9 to 17"

    @agent_tool(effects=ToolEffects.external_side_effect())
    def refund(self, order: str) -> str:
        """Give money back for an order. It has a side effect: a person approves it first."""
        return f"refunded {SHOPS[get_run_context().tenant_id].pop(order)}"


ada, bob = Principal("ada", tenant="acme"), Principal("bob", tenant="globex")
app = Application("support").add(Support, OfflineModel).load_plugins()
api = FastAPI(lifespan=pilotage_lifespan(app))
api.include_router(agent_routes(app, principal=BearerTokens({"token-of-ada": ada, "token-of-bob": bob})))
