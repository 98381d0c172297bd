"""The programs of the kit; importing this package fills `kit.PROGRAMS`."""

from tests.replay.programs import cancellation, nested, plain, streams, tasks, values, waits

__all__ = ["cancellation", "nested", "plain", "streams", "tasks", "values", "waits"]
