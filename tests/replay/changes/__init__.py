"""Changes as releases bring them; importing this package fills `releases.CHANGES`."""

from tests.replay.changes import agents, calls, habits, people, tasks, tools, values

__all__ = ["agents", "calls", "habits", "people", "tasks", "tools", "values"]
