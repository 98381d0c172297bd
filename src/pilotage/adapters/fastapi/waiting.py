"""Waiting for the first of several things, with none of them left over."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def until_the_first_ends(*works: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Return when one of them ends, all others being cancelled and over; what it raised is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stopped(tasks)
    for task in ended:
        task.result()


async def stopped(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel them and return when all are over.

    Who is cancelled meanwhile waits all the same, and is cancelled then, by the very error: frameworks know their
    cancellations by it, and cancel again and again until they are obeyed.
    """
    for task in tasks:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
