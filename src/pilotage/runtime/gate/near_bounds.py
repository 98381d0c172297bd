"""Which bounds of a run are nearly reached. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pilotage.runtime.gate.accounts import Account

WARN_AT = Decimal("0.8")
"""From this share of a bound on, whoever reads the run is warned."""


def near_bounds(account: Account) -> Iterator[str]:
    """A sentence about each bound that a run has nearly reached; the same one however near it is."""
    for name in ("steps", "tool_calls", "tokens", "cost"):
        bound: int | Decimal | None = getattr(account.limits, f"max_{name}")
        if bound is not None and getattr(account, name) >= bound * WARN_AT:
            yield f"the run has used {WARN_AT:.0%} or more of max_{name}={bound}".replace("%", " %", 1)
