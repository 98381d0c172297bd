"""Stories about post-processors and the stereotypes that bring them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from pilotage.container import (
    Application,
    Graph,
    IContainer,
    IContainerAware,
    IPostProcessor,
    Pod,
    Scope,
    provided_by,
)
from pilotage.errors import (
    AgentBootstrapError,
    AgentModelConfigurationError,
    AgentPersistenceConfigurationError,
    ApplicationStartError,
    Problem,
)


class Bank(ABC):
    @abstractmethod
    def pay(self) -> str: ...


@Pod
class HttpBank(Bank):
    def pay(self) -> str:
        return "paid over http"


class WallClock:
    def now(self) -> str:
        return "noon"


class Diary(list[str]):
    """Where the pods of these stories write what happens to them."""


@Pod(lazy=True)
class Expensive:
    made: ClassVar[int] = 0

    def __init__(self) -> None:
        type(self).made += 1


class NeedsExpensive:
    def __init__(self, expensive: Expensive) -> None:
        self.expensive = expensive


class Loud(Bank):
    def __init__(self, inner: Bank) -> None:
        self.inner = inner

    def pay(self) -> str:
        return self.inner.pay().upper()


class Amplifier(IPostProcessor, IContainerAware):
    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self.seen: list[str] = []

    def set_container(self, container: IContainer) -> None:
        self.diary.append(f"aware of banks: {container.contains(Bank)}")

    def post_process(self, pod: object) -> object:
        self.seen.append(type(pod).__name__)
        return Loud(pod) if isinstance(pod, Bank) else pod


@Pod(order=1)
class Echo(IPostProcessor):
    def post_process(self, pod: object) -> object:
        return Loud(pod) if isinstance(pod, Loud) else pod


@Pod(scope=Scope.PROTOTYPE)
class PocketBank(Bank):
    def pay(self) -> str:
        return "small change"


async def test_post_processors_wrap_pods_in_order_but_not_what_they_need_themselves() -> None:
    async with Application("shop").add(Echo, Amplifier, Diary, HttpBank, PocketBank, WallClock()) as app:
        assert app.get(Bank, "http_bank").pay() == "PAID OVER HTTP"
        assert app.get(Bank, "pocket_bank").pay() == "SMALL CHANGE"
        assert app.get(Amplifier).seen == ["HttpBank", "WallClock", "PocketBank"]
        assert app.get(Diary) == ["aware of banks: True"]
        assert isinstance(app.get(Bank, "http_bank"), Loud)


class RefundPolicy(IPostProcessor):
    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        for node in graph.nodes:
            if isinstance(node.pod, Audited) and not graph.contains(Journal):
                yield Problem(
                    "unaudited",
                    f"{node.label} ({node.pod.level}) is audited and nothing provides Journal.",
                    "Add one.",
                    family=AgentPersistenceConfigurationError,
                )


@dataclass(kw_only=True, eq=False)
class Audited(Pod):
    """A stereotype made by an application."""

    level: str = "low"
    post_processors: ClassVar[tuple[type, ...]] = (RefundPolicy,)


@provided_by("pilotage[openai]", family=AgentModelConfigurationError)
class Journal(ABC):
    @abstractmethod
    def write(self) -> None: ...


@Audited(level="high")
class Transfers:
    def __init__(self, journal: Journal) -> None: ...


@Audited
class Withdrawals: ...


async def test_a_stereotype_brings_its_checks_and_all_problems_come_in_one_error() -> None:
    with pytest.raises(AgentBootstrapError) as caught:
        await Application("shop").add(Transfers, Withdrawals).start()
    assert type(caught.value) is AgentBootstrapError
    assert str(caught.value) == (
        "3 problems in application 'shop':\n"
        "  1. Transfers -> Journal: nothing provides Journal.\n"
        '     Install the provider: pip install "pilotage[openai]".\n'
        "  2. Transfers (high) is audited and nothing provides Journal.\n"
        "     Add one.\n"
        "  3. Withdrawals (low) is audited and nothing provides Journal.\n"
        "     Add one."
    )


async def test_nothing_is_made_if_anything_is_wrong() -> None:
    Expensive.made = 0
    with pytest.raises(ApplicationStartError):
        await Application("shop").add(NeedsExpensive, Expensive, Transfers).start()
    assert Expensive.made == 0
