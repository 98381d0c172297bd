"""What the tests of replay share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """No log: runs that die and diverge say a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
