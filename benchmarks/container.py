"""What the container costs: look-ups, prototypes and the start of a thousand pods."""

from __future__ import annotations

import asyncio
from timeit import repeat
from typing import Any

from pilotage.container import Application, Pod, Scope

_CALLS = 100_000
_PODS = 1_000


class Ledger: ...


@Pod(scope=Scope.PROTOTYPE)
class Page:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


@Pod(scope=Scope.PROTOTYPE)
class Shop:
    def __init__(self, ledger: Ledger, page: Page) -> None:
        self.ledger, self.page = ledger, page


def measure() -> dict[str, float]:
    """Ratios within this run, and one duration in milliseconds as information."""
    with Application("benchmark").add(Ledger, Page, Shop) as app:
        ledger = app.get(Ledger)
        table = {Ledger: ledger}
        look_up = _best("table[Ledger]", table=table, Ledger=Ledger)
        get = _best("app.get(Ledger)", app=app, Ledger=Ledger)
        direct = _best("Shop(ledger, Page(ledger))", Shop=Shop, Page=Page, ledger=ledger)
        prototype = _best("app.get(Shop)", app=app, Shop=Shop)
    return {
        "get of a singleton / dictionary look-up": get / look_up,
        "prototype of a small graph / direct construction": prototype / direct,
        "get of a singleton, ns": get * 1e9,
        "prototype of a small graph, ns": prototype * 1e9,
        f"start of {_PODS} pods, ms": _start_many() * 1e3,
    }


def _best(statement: str, **names: object) -> float:
    return min(repeat(statement, globals=names, number=_CALLS, repeat=5)) / _CALLS


def _start_many() -> float:
    """The seconds it takes to check and build a thousand pods, three dependencies each."""
    pods: list[type] = []
    for position in range(_PODS):
        needed = [
            pods[other] for other in {position - 1, position - 7, position // 2} if 0 <= other < position
        ]
        pods.append(_pod(f"Pod{position}", needed))
    app = Application("benchmark").add(*pods)
    asyncio.run(app.start())
    return app.report.seconds


def _pod(name: str, needed: list[type]) -> type:
    parameters = "".join(f", p{number}: {type_.__name__}" for number, type_ in enumerate(needed))
    namespace: dict[str, Any] = {type_.__name__: type_ for type_ in needed}
    exec(f"class {name}:\n    def __init__(self{parameters}): ...", namespace)  # noqa: S102 - a thousand classes
    return Pod(namespace[name])


if __name__ == "__main__":
    for what, figure in measure().items():
        print(f"{what:<55}{figure:>10.2f}")
