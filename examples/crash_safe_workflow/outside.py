"""The outside world of the workflow: a file of what happened, and a trap that kills the process in the middle."""

from __future__ import annotations

import os
import signal
from pathlib import Path

LEDGER, TRAP = Path("ledger.txt"), Path("trap")


def pack(order: str) -> str:
    """Pack an order. Packing it again gives the same parcel."""
    return _done("pack", f"parcel of {order}")


def pay(order: str) -> str:
    """Charge the customer. Charging twice takes the money twice."""
    return _done("pay", f"receipt for {order}")


def book_courier(parcel: str) -> str:
    """Book a courier for a parcel. Booking again finds the booking."""
    return _done("courier", f"courier for {parcel}")


def _done(name: str, result: str) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{name}\n")
    if TRAP.exists() and TRAP.read_text() == name:
        TRAP.unlink()
        os.kill(os.getpid(), signal.SIGKILL)  # it happened, and nobody could write that down
    return result
