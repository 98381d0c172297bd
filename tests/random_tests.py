"""How many examples a random test tries: as many as its test says, and four times as many with `--exhaustive`."""

from __future__ import annotations

from hypothesis import settings

# Hypothesis gives a profile this many examples where the profile names no other number.
USUAL = 100
THOROUGH = 4 * USUAL


def examples(number: int, **others: int) -> settings:
    """Return the settings of a random test that tries a number of examples."""
    return settings(
        max_examples=number * settings().max_examples // USUAL, deadline=None, print_blob=True, **others
    )
