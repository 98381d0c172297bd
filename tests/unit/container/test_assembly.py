"""Making pods from plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from pilotage.container.assembly import Constant, Supplier, make, make_async, plan
from pilotage.container.graph import Graph, Node
from pilotage.container.lifecycle import Teardown
from pilotage.container.pod import Pod, Scope


class Ledger: ...


@Pod(scope=Scope.PROTOTYPE)
class Page: ...


class Shop:
    def __init__(self, ledger: Ledger, *, page: Page, size: int = 3, note: Scope | None) -> None:
        self.made_of = (ledger, page, size, note)


@Pod
def twice() -> Iterator[Ledger]:
    yield Ledger()
    yield Ledger()


@Pod
async def async_twice() -> AsyncIterator[Ledger]:
    yield Ledger()
    yield Ledger()


def node_of(target: object) -> Node:
    return Node(Pod.get(target), 0)


def test_a_plan_binds_what_is_made_and_asks_for_the_rest_each_time() -> None:
    graph = Graph([Pod().applied_to(Ledger), Pod.get(Page), Pod().applied_to(Shop)], {})
    ledger, page, shop = graph.nodes
    suppliers: dict[Node, Supplier] = {ledger: Constant(only := Ledger()), page: Page}
    make_shop = plan(shop, graph, suppliers)
    first, second = make_shop(), make_shop()
    assert isinstance(first, Shop)
    assert isinstance(second, Shop)
    assert first.made_of == (only, first.made_of[1], 3, None)
    assert first.made_of[1] is not second.made_of[1]


def test_a_plan_that_knows_everything_calls_the_target_itself() -> None:
    graph = Graph([Pod().applied_to(Ledger)], {})
    assert plan(graph.nodes[0], graph, {}) is Ledger


async def test_a_factory_that_yields_twice_is_refused_at_its_end() -> None:
    teardown = Teardown()
    assert isinstance(make(twice, node_of(twice), teardown), Ledger)
    assert isinstance(await make_async(async_twice, node_of(async_twice), teardown), Ledger)
    assert [str(failure) for failure in await teardown.aclose()] == [
        "async_twice yielded twice. Yield the pod once; what follows is the cleanup.",
        "twice yielded twice. Yield the pod once; what follows is the cleanup.",
    ]
