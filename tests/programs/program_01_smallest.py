"""The smallest agent, word for word as users write it; it runs when it is imported."""

from pilotage import Agent, ToolEffects, agent_tool, run_sync


@Agent
class Greeter:
    """Greet people by name, warmly and briefly."""

    @agent_tool(effects=ToolEffects.read_only())
    def nickname(self, name: str) -> str:
        """Look up how a person likes to be called."""
        return {"Ada": "Countess"}.get(name, name)


print(run_sync(Greeter, "greet Ada").output)        # no key, no server: the offline model
