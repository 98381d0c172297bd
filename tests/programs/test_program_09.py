"""The tests of the program are run as tests, as they are written."""

from __future__ import annotations

from tests.programs.program_09_crashing import (
    test_the_greeting,
    test_the_refund_is_paid_once_whatever_happens,
)

__all__ = ["test_the_greeting", "test_the_refund_is_paid_once_whatever_happens"]
