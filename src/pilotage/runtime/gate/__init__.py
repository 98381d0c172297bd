"""Who and what may stand against an action: permission, trust, budgets, time."""
