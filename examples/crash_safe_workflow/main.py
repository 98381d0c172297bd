"""Kill the workflow with SIGKILL inside of a step, start it again, and look at what happened outside.

A step that may be repeated is done again after a kill. The payment may not: the run asks a person.

Run it: python examples/crash_safe_workflow/main.py
        python examples/crash_safe_workflow/workflow.py A-17    (one order)
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from outside import LEDGER, TRAP
from workflow import Shipping

from pilotage import AgentRuns, Application, RecoveryDecision

WORKFLOW = Path(__file__).with_name("workflow.py")
QUESTION = "interrupted: It is not known whether attempt 1 of 'step:pay' took effect.\n"


def start(order: str, *, killed_in: str | None = None) -> str:
    """Run the workflow in a process of its own, and return what it prints."""
    if killed_in:
        TRAP.write_text(killed_in)
    done = subprocess.run([sys.executable, str(WORKFLOW), order], capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    assert done.returncode == (-9 if killed_in else 0), done.stderr
    print(f"{order}: {done.stdout.strip() or f'killed in {killed_in!r}'}")
    return done.stdout


async def answer(order: str) -> str:
    """Look into the ledger, as a person would, say that the payment was made, and return how the run ends."""
    async with Application("shop").add(Shipping).load_plugins() as app:
        runs = app.get(AgentRuns)
        waiting = await runs.start(Shipping, order, id=order)
        (question,) = await runs.questions(waiting.id)
        await runs.answer(waiting.id, question.id, RecoveryDecision.DONE, result=f"receipt for {order}")
        result = await (await runs.resume(waiting.id)).result()
        print(f"{order}: {result.status}: {result.output}")
        return f"{result.status}: {result.output}\n"


def main() -> None:
    """Two orders, two kills."""
    for order, killed_in in (("A-1", "pack"), ("A-2", "pay")):
        LEDGER.unlink(missing_ok=True)
        start(order, killed_in=killed_in)
        shown = start(order)
        if killed_in == "pay":
            assert shown == QUESTION
            shown = asyncio.run(answer(order))
        assert shown == f"completed: receipt for {order}; courier for parcel of {order}\n"
        assert LEDGER.read_text().split().count("pay") == 1
    print("demo: ok")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
