"""What the container costs: look-ups, prototypes and the start of a thousand pods."""

from __future__ import annotations

import asyncio
from timeit import repeat
from typing import Any

from benchmarks.timing import FULL, Effort

from pilotage.container import Application, Pod, Scope

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


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Ratios within this run, and one duration in milliseconds as information."""
    calls = effort.times(100_000)
    with Application("benchmark").add(Ledger, Page, Shop) as app:
        ledger = app.get(Ledger)
        table = {Ledger: ledger}
        look_up = _best(calls, "table[Ledger]", table=table, Ledger=Ledger)
        get = _best(calls, "app.get(Ledger)", app=app, Ledger=Ledger)
        direct = _best(calls, "Shop(ledger, Page(ledger))", Shop=Shop, Page=Page, ledger=ledger)
        prototype = _best(calls, "app.get(Shop)", app=app, Shop=Shop)
    return {
        "get of a singleton / dictionary look-up": get / look_up,
        "prototype of a small graph / direct construction": prototype / direct,
        "get of a singleton, ns": get * 1e9,
        "prototype of a small graph, ns": prototype * 1e9,
        f"start of {_PODS} pods, ms": _start_many() * 1e3,
    }


def _best(calls: int, statement: str, **names: object) -> float:
    return min(repeat(statement, globals=names, number=calls, repeat=5)) / calls


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
