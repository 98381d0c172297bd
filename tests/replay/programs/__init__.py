"""The programs of the kit; importing this package fills `kit.PROGRAMS`."""

from tests.replay.programs import cancellation, handlers, nested, plain, streams, tasks, values, waits

__all__ = ["cancellation", "handlers", "nested", "plain", "streams", "tasks", "values", "waits"]
