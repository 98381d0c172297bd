"""The programs of the kit; importing this package fills `kit.PROGRAMS`."""

from tests.replay.programs import (
    begun_by_chance,
    cancellation,
    endings,
    handlers,
    idioms,
    mixed,
    nested,
    plain,
    silent,
    streams,
    tasks,
    values,
    waits,
)

__all__ = [
    "begun_by_chance",
    "cancellation",
    "endings",
    "handlers",
    "idioms",
    "mixed",
    "nested",
    "plain",
    "silent",
    "streams",
    "tasks",
    "values",
    "waits",
]
