"""Times and lengths of time, as people say them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def ago(then: datetime | None, now: datetime) -> str:
    """How long ago something was."""
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    return "just now" if seconds < 1 else f"{length(seconds)} ago"


def length(seconds: float) -> str:
    """A length of time, in the largest unit that fits."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def day_and_time(moment: datetime | None) -> str:
    """A moment to the second, in its own time zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z").strip() if moment else ""


def time_of(moment: datetime | None) -> str:
    """The time of a day to the second."""
    return moment.strftime("%H:%M:%S") if moment else ""


def time_between(begin: datetime | None, end: datetime | None) -> str:
    """The length of time between two moments, where both are known."""
    if begin is None or end is None:
        return ""
    return length(max((end - begin) / timedelta(seconds=1), 0.0))
