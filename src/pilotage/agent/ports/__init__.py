"""The ports of the agent contract: what adapters implement, and the values they exchange."""
