"""The programs of the kit; importing this package fills `kit.PROGRAMS`."""

from tests.replay.programs import cancellation, plain, streams, tasks, values, waits

__all__ = ["cancellation", "plain", "streams", "tasks", "values", "waits"]
