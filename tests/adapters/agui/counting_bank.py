"""The bank of the page, with a model that counts and holds in the middle until there is a file `gate.txt`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from examples.copilotkit.application import Payments, Teller
from pilotage import Application
from pilotage.agent import ModelMessageRole, ModelRequest, ModelStreamEvent, ModelStreamEventKind
from pilotage.models import OfflineModel

GATE = Path("gate.txt")
_BEFORE, _AFTER = "One two three ", "four five six seven eight nine ten."
_LOOKS_AGAIN = 0.01


def wait_for_gate() -> None:
    """Return when there is the file; a thread that still waits ends with its process."""
    while not GATE.exists():
        threading.Event().wait(_LOOKS_AGAIN)


class CountingModel(OfflineModel):
    """Counts to ten or says nothing where it is told to; everything else is for the offline model."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        said = [each.text for each in request.messages if each.role is ModelMessageRole.USER]
        # The last message may be that of the loop, which asks again for a reply.
        if any(each.startswith("stay silent") for each in said[-2:]):
            yield ModelStreamEvent(ModelStreamEventKind.DONE)
            return
        if not said or not said[-1].startswith("count"):
            async for event in super().stream(request):
                yield event
            return
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, _BEFORE)
        await asyncio.to_thread(wait_for_gate)
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, _AFTER)
        yield ModelStreamEvent(ModelStreamEventKind.DONE)


app = Application("bank").add(Teller, Payments, CountingModel()).load_plugins()
