"""Stories about what gets injected, and which pod wins where several could."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Generic, NewType, Protocol, TypeVar

from pilotage.container import (
    Application,
    Pod,
    Qualifier,
    UseCase,
)

T = TypeVar("T")
Greeting = NewType("Greeting", str)


class Bank(ABC):
    @abstractmethod
    def pay(self) -> str: ...


@Pod
class HttpBank(Bank):
    def pay(self) -> str:
        return "paid over http"


@Pod(order=-1)
class TestBank(Bank):
    __test__ = False

    def pay(self) -> str:
        return "paid in a test"


class Clock(Protocol):
    def now(self) -> str: ...


class WallClock:
    def now(self) -> str:
        return "noon"


class User: ...


class Order: ...


class Repository(Generic[T]): ...


class CachedRepository(Repository[T]): ...


class Users(CachedRepository[User]): ...


class Orders(Repository[Order]): ...


@Pod
class Payments:
    def __init__(self, bank: Bank, clock: Clock) -> None:
        self.bank, self.clock = bank, clock


@UseCase
class Refunds:
    def __init__(self, payments: Payments, limit: int = 3, backup: Order | None = None) -> None:
        self.payments, self.limit, self.backup = payments, limit, backup


async def test_pods_are_injected_by_class_by_interface_and_by_protocol() -> None:
    async with Application("shop").add(Refunds, Payments, HttpBank, WallClock) as app:
        refunds = app.get(Refunds)
        assert refunds.payments is app.get(Payments)
        assert refunds.payments.bank is app.get(Bank) is app.get(HttpBank)
        assert refunds.payments.clock.now() == "noon"


async def test_defaults_and_optional_parameters_are_left_out_if_nothing_provides_them() -> None:
    async with Application("shop").add(Refunds, Payments, HttpBank, WallClock) as app:
        assert app.get(Refunds).limit == 3
        assert app.get(Refunds).backup is None


async def test_defaults_and_optional_parameters_are_injected_if_something_provides_them() -> None:
    order = Order()
    async with Application("shop").add(Refunds, Payments, HttpBank, WallClock, order) as app:
        assert app.get(Refunds).backup is order


class Reports:
    def __init__(
        self,
        in_list: list[Bank],
        in_sequence: Sequence[Bank],
        in_tuple: tuple[Bank, ...],
        in_set: set[Bank],
        in_abstract_set: AbstractSet[Bank],
        in_dict: dict[str, Bank],
        in_mapping: Mapping[str, Bank],
        in_iterable: Iterable[Bank],
        nothing: list[User],
    ) -> None:
        self.ordered = [in_list, in_sequence, list(in_tuple), list(in_iterable)]
        self.sets = [in_set, in_abstract_set]
        self.by_name = [in_dict, in_mapping]
        self.nothing = nothing


async def test_all_pods_of_a_type_are_injected_as_a_collection_in_order() -> None:
    async with Application("shop").add(HttpBank, TestBank, Reports) as app:
        http, test, reports = app.get(HttpBank), app.get(TestBank), app.get(Reports)
        assert reports.ordered == [[test, http]] * 4
        assert reports.sets == [{http, test}] * 2
        assert reports.by_name == [{"test_bank": test, "http_bank": http}] * 2
        assert reports.nothing == []
        assert app.get_all(Bank) == [test, http]


class Shelf:
    def __init__(self, users: Repository[User], orders: Repository[Order], every: list[Repository]) -> None:
        self.users, self.orders, self.every = users, orders, every


async def test_generics_are_told_apart_by_their_arguments() -> None:
    async with Application("shop").add(Shelf, Users, Orders) as app:
        shelf = app.get(Shelf)
        assert isinstance(shelf.users, Users)
        assert isinstance(shelf.orders, Orders)
        assert shelf.every == [shelf.users, shelf.orders]
        assert app.get(Repository[User]) is shelf.users


class Service(Generic[T]):
    def __init__(self, repository: Repository[T]) -> None:
        self.repository = repository


class UserService(Service[User]): ...


async def test_a_generic_base_s_constructor_gets_the_type_of_the_derived_class() -> None:
    async with Application("shop").add(UserService, Users, Orders) as app:
        assert isinstance(app.get(UserService).repository, Users)


class Qualified:
    def __init__(
        self,
        bank: Annotated[Bank, Qualifier("test_bank")],
        other: Annotated[Bank | None, "a note", Qualifier("no_bank")],
    ) -> None:
        self.bank, self.other = bank, other


async def test_a_qualifier_asks_for_a_pod_by_name() -> None:
    async with Application("shop").add(Qualified, HttpBank, TestBank) as app:
        assert isinstance(app.get(Qualified).bank, TestBank)
        assert app.get(Qualified).other is None
        assert app.get(Bank, "http_bank").pay() == "paid over http"


@Pod
def greeting() -> Greeting:
    return Greeting("hello")


class Host:
    def __init__(self, greeting: Greeting) -> None:
        self.greeting = greeting


async def test_a_new_type_is_a_type_of_its_own() -> None:
    async with Application("shop").add(Host, greeting) as app:
        assert app.get(Host).greeting == "hello"


@Pod
@dataclass
class Invoices:
    bank: Bank
    names: tuple[str, ...] = ()


async def test_a_dataclass_is_injected_through_its_fields() -> None:
    async with Application("shop").add(Invoices, HttpBank) as app:
        assert app.get(Invoices).bank.pay() == "paid over http"


@Pod(primary=True)
class PreferredBank(Bank):
    def pay(self) -> str:
        return "preferred"


async def test_a_primary_pod_is_preferred() -> None:
    async with Application("shop").add(HttpBank, PreferredBank) as app:
        assert app.get(Bank).pay() == "preferred"


async def test_a_binding_of_the_application_wins_over_a_primary_pod() -> None:
    app = Application("shop").add(PreferredBank).bind(Bank, PreferredBank).bind(Bank, HttpBank)
    async with app:
        assert app.get(Bank).pay() == "paid over http"
        assert len(app.get_all(Bank)) == 2


async def test_an_instance_can_be_bound_to_a_protocol() -> None:
    clock = WallClock()
    async with Application("shop").add(WallClock()).bind(Clock, clock) as app:
        assert app.get(Clock) is clock


@Pod(primary=True)
class LoggingBank(Bank):
    def __init__(self, inner: Bank, everyone: list[Bank]) -> None:
        self.inner, self.everyone = inner, everyone

    def pay(self) -> str:
        return f"logged: {self.inner.pay()}"


async def test_a_pod_that_wraps_its_own_interface_gets_the_others() -> None:
    async with Application("shop").add(LoggingBank, HttpBank) as app:
        assert app.get(Bank).pay() == "logged: paid over http"
        assert app.get(LoggingBank).everyone == [app.get(HttpBank)]
