"""Wrong definitions of pods and applications, with the exact words people get to read."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

import pytest

from pilotage.container import (
    Application,
    ILifecycle,
    IPostProcessor,
    Pod,
    Qualifier,
    Scope,
    UseCase,
    provided_by,
)
from pilotage.errors import (
    AgentPersistenceConfigurationError,
    ApplicationStartError,
    ApplicationStateError,
    CallerError,
    ContextNotActiveError,
    PluginError,
    PodDefinitionError,
    PodNotFoundError,
)

T = TypeVar("T")


class Bank(ABC):
    @abstractmethod
    def pay(self) -> None: ...


class Notifier(Protocol):
    def notify(self) -> None: ...
    def close(self) -> None: ...


class Ledger: ...


class User: ...


class Order: ...


class Repository(Generic[T]): ...


class Cards(ABC):
    @abstractmethod
    def charge(self) -> None: ...


@Pod
class CardAdapter(Cards):
    def charge(self) -> None: ...


@provided_by("pilotage[sqlalchemy]", family=AgentPersistenceConfigurationError)
class Journal(ABC):
    @abstractmethod
    def append(self) -> None: ...


@dataclass(frozen=True)
class Refusal:
    define: Callable[[], None]
    error: type[Exception]
    message: str


REFUSALS: list[Refusal] = []


def refused(error: type[Exception], message: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The definition below raises exactly this."""

    def note(define: Callable[[], None]) -> Callable[[], None]:
        REFUSALS.append(Refusal(define, error, message))
        return define

    return note


def refused_at_start(
    summary: str, remedy: str, family: type[Exception] = ApplicationStartError
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The application below has exactly this one problem."""
    return refused(family, f"1 problem in application 'shop':\n  1. {summary}\n     {remedy}")


def start(*pods: object) -> None:
    asyncio.run(Application("shop").add(*pods).start())


@refused(
    PodDefinitionError,
    "@UseCase has no option 'nmae'. It has name, scope, primary, lazy and order.",
)
def unknown_option() -> None:
    @UseCase(nmae="refunds")
    class Refunds: ...


@refused(
    PodDefinitionError,
    "Refunds.__init__: parameter 'main_bank' has no type. "
    "Write the type of the pod it needs, for example main_bank: MainBank.",
)
def untyped_parameter() -> None:
    @Pod
    class Refunds:
        def __init__(self, main_bank) -> None: ...


@refused(
    PodDefinitionError,
    "Refunds.__init__: *banks cannot be injected. "
    "Name each parameter and give it a type (list[T] gets all pods of a type), "
    "or make the pod in a factory function.",
)
def variable_positional() -> None:
    @Pod
    class Refunds:
        def __init__(self, *banks: Bank) -> None: ...


@refused(
    PodDefinitionError,
    "Refunds.__init__: **options cannot be injected. "
    "Name each parameter and give it a type (list[T] gets all pods of a type), "
    "or make the pod in a factory function.",
)
def variable_keywords() -> None:
    @Pod
    class Refunds:
        def __init__(self, **options: str) -> None: ...


@refused(
    PodDefinitionError,
    "Refunds.__init__: parameter 'bank' is positional-only. Remove the '/' from the signature.",
)
def positional_only() -> None:
    @Pod
    class Refunds:
        def __init__(self, bank: Bank, /) -> None: ...


@refused(
    PodDefinitionError,
    "make_bank: the factory has no return type. Write the type it provides: def make_bank(...) -> SomeType.",
)
def factory_without_return_type() -> None:
    @Pod
    def make_bank(): ...


@refused(
    PodDefinitionError,
    "make_bank: the factory returns None. Write the type it provides: def make_bank(...) -> SomeType.",
)
def factory_of_nothing() -> None:
    @Pod
    def make_bank() -> None: ...


@refused(
    PodDefinitionError,
    "Banks.make: a method cannot be a pod. "
    "Decorate its class, or move it out of the class as a factory function.",
)
def method_as_pod() -> None:
    class Banks:
        @Pod
        def make(self) -> Ledger: ...


@refused(
    PodDefinitionError,
    "@Pod decorates a class or a function, not 'ledger'. Options are keywords: @Pod(name=...).",
)
def instance_as_pod() -> None:
    Pod("ledger")


@refused(
    PodDefinitionError,
    "Slow is abstract (pay and wait) and cannot be made. Write @Pod above the class that implements it.",
)
def abstract_pod() -> None:
    @Pod
    class Slow(Bank):
        @abstractmethod
        def wait(self) -> None: ...


@refused(
    PodDefinitionError,
    "Sender is a Protocol and cannot be made. Write @Pod above the class that implements it.",
)
def protocol_as_pod() -> None:
    @Pod
    class Sender(Protocol):
        def send(self) -> None: ...


@refused(
    PodDefinitionError,
    "Refunds is decorated twice: @Pod and @UseCase. Keep one of them.",
)
def two_stereotypes() -> None:
    @UseCase
    @Pod
    class Refunds: ...


@refused(
    PodDefinitionError,
    "Refunds: a decorator above @Pod replaced the class, as @dataclass(slots=True) does. "
    "Write @Pod above that decorator.",
)
def replaced_class() -> None:
    @dataclass(slots=True)
    @Pod
    class Refunds:
        ledger: Ledger

    Application("shop").add(Refunds)


@refused(
    PodDefinitionError,
    "Refunds: there is no scope 'request'. Use Scope.SINGLETON, Scope.PROTOTYPE or Scope.CONTEXT.",
)
def unknown_scope() -> None:
    @Pod(scope="request")
    class Refunds: ...


@refused(
    PodDefinitionError,
    "Refunds: the name is blank. Give a visible name, or leave it out.",
)
def blank_name() -> None:
    @Pod(name=" ")
    class Refunds: ...


@refused(
    PodDefinitionError,
    "Refunds: lazy=True means nothing in the scope prototype, "
    "whose pods are made when they are asked for. Leave it out.",
)
def lazy_prototype() -> None:
    @Pod(scope=Scope.PROTOTYPE, lazy=True)
    class Refunds: ...


@refused(
    PodDefinitionError,
    "Ledger is not decorated with @UseCase. Write @UseCase above it.",
)
def annotation_of_unmarked_class() -> None:
    UseCase.get(Ledger)


@refused(PodDefinitionError, "this is an instance of Clock. Give the class itself.")
def annotation_of_an_instance() -> None:
    @Pod
    class Clock: ...

    Pod.get(Clock())


@refused_at_start(
    "Refunds.__init__: parameter 'store' may be User or Order.",
    "Ask for one type, for example an interface that all of them implement.",
)
def union_parameter() -> None:
    class Refunds:
        def __init__(self, store: User | Order) -> None: ...

    start(Refunds)


@refused_at_start(
    "Refunds.__init__: parameter 'store' is Any, which every pod is.",
    "Write the type of the pod it needs.",
)
def any_parameter() -> None:
    class Refunds:
        def __init__(self, store: Any) -> None: ...

    start(Refunds)


@refused_at_start(
    "Refunds -> Payments.__init__: the type of parameter 'bank' cannot be resolved: "
    "name 'Bnak' is not defined.",
    f"Import or define it at the top level of {__name__}, not under TYPE_CHECKING and not inside a function.",
)
def unresolvable_hint() -> None:
    class Payments:
        def __init__(self, bank: "Bnak") -> None: ...  # noqa: F821

    class Refunds:
        def __init__(self, payments: Payments) -> None: ...

    start(Payments, Refunds)


@refused_at_start(
    "make_bank: the return type cannot be resolved: name 'Bnak' is not defined.",
    f"Import or define it at the top level of {__name__}, not under TYPE_CHECKING and not inside a function.",
)
def unresolvable_return_type() -> None:
    @Pod
    def make_bank() -> "Bnak": ...  # noqa: F821

    start(make_bank)


@refused_at_start(
    "make_ledger: the factory provides Ledger | None, which is not one type.",
    "Write the one type it always provides.",
)
def optional_factory() -> None:
    @Pod
    def make_ledger() -> Ledger | None: ...

    start(make_ledger)


@refused_at_start(
    "make_ledger: the factory yields its pod.",
    "Write the return type as Iterator[Ledger], not Ledger.",
)
def generator_without_iterator() -> None:
    @Pod
    def make_ledger() -> Ledger:
        yield Ledger()

    start(make_ledger)


@refused_at_start(
    "make_ledger: the factory yields its pod.",
    "Write the return type as AsyncIterator[Ledger], not Ledger.",
)
def async_generator_without_iterator() -> None:
    @Pod
    async def make_ledger() -> Ledger:
        yield Ledger()

    start(make_ledger)


@refused_at_start(
    "Refunds -> Payments -> Cards: nothing provides Cards.",
    "Add a class that implements it (@Pod), or bind one: app.bind(Cards, ...). "
    f"Near miss: CardAdapter (not scanned: {__name__}).",
)
def missing_interface() -> None:
    class Payments:
        def __init__(self, cards: Cards) -> None: ...

    class Refunds:
        def __init__(self, payments: Payments) -> None: ...

    start(Refunds, Payments)


@refused_at_start(
    "Refunds -> Ledger: nothing provides Ledger (also needed by Payments).",
    f"Add it: app.add(Ledger), or decorate it with @Pod and scan {__name__}.",
)
def missing_class_needed_twice() -> None:
    class Payments:
        def __init__(self, ledger: Ledger) -> None: ...

    class Refunds:
        def __init__(self, ledger: Ledger) -> None: ...

    start(Refunds, Payments)


@refused_at_start(
    "Client: nothing provides str for parameter 'url'.",
    "Give the parameter a default, take a @Configuration class that holds the value, "
    "or make Client in a @Pod factory function.",
)
def missing_plain_value() -> None:
    class Client:
        def __init__(self, url: str) -> None: ...

    start(Client)


@refused_at_start(
    "Runs -> Journal: nothing provides Journal.",
    'Install the provider: pip install "pilotage[sqlalchemy]".',
    family=AgentPersistenceConfigurationError,
)
def missing_port_with_provider() -> None:
    class Runs:
        def __init__(self, journal: Journal) -> None: ...

    start(Runs)


@refused_at_start(
    "Refunds -> Ledger: nothing provides Ledger called 'backup'.",
    "Give the pod that name: @Pod(name=\"backup\"). Near miss: Ledger is provided under the name 'ledger'.",
)
def missing_qualified() -> None:
    class Refunds:
        def __init__(self, ledger: Annotated[Ledger, Qualifier("backup")]) -> None: ...

    start(Refunds, Ledger)


@refused_at_start(
    "Users -> Repository[User]: nothing provides Repository[User].",
    "Add a class that implements it (@Pod), or bind one: app.bind(Repository[User], ...). "
    "Near miss: Orders (provides Repository[Order]).",
)
def missing_generic() -> None:
    class Orders(Repository[Order]): ...

    class Users:
        def __init__(self, users: Repository[User]) -> None: ...

    start(Users, Orders)


@refused_at_start(
    "Refunds -> Notifier: nothing provides Notifier.",
    "Add a class that implements it (@Pod), or bind one: app.bind(Notifier, ...). "
    "Near miss: Mailer (lacks close).",
)
def nearly_fitting_protocol() -> None:
    class Mailer:
        def notify(self) -> None: ...

    class Refunds:
        def __init__(self, notifier: Notifier) -> None: ...

    start(Refunds, Mailer)


@refused_at_start(
    "Refunds -> Bank: 2 pods provide Bank: FirstBank and SecondBank.",
    "Mark one with primary=True, bind one: app.bind(Bank, FirstBank), "
    'or ask for one by name: Annotated[Bank, Qualifier("first_bank")].',
)
def ambiguous() -> None:
    class FirstBank(Bank):
        def pay(self) -> None: ...

    class SecondBank(Bank):
        def pay(self) -> None: ...

    class Refunds:
        def __init__(self, bank: Bank) -> None: ...

    start(Refunds, FirstBank, SecondBank)


class Hen:
    def __init__(self, egg: "Egg") -> None: ...


class Egg:
    def __init__(self, hen: Hen) -> None: ...


@refused_at_start(
    "Egg -> Hen -> Egg: these pods need each other.",
    "Move what they share into a pod of its own, "
    "or let one of them take Application and get the other when it is needed.",
)
def cycle() -> None:
    start(Egg, Hen)


class Selfish:
    def __init__(self, other: "Selfish") -> None: ...


@refused_at_start(
    "Selfish -> Selfish: Selfish needs itself.",
    "Move what they share into a pod of its own, "
    "or let one of them take Application and get the other when it is needed.",
)
def cycle_of_one() -> None:
    start(Selfish)


@refused_at_start(
    "Refunds -> Query -> Session: "
    "Refunds lives as long as the application and would keep Session beyond its context.",
    "Make Refunds a context pod (scope=Scope.CONTEXT), "
    "or take Application in it and call get(Session) inside the context.",
)
def widened_scope() -> None:
    @Pod(scope=Scope.CONTEXT)
    class Session: ...

    @Pod(scope=Scope.PROTOTYPE)
    class Query:
        def __init__(self, session: Session) -> None: ...

    @Pod
    class Refunds:
        def __init__(self, query: Query) -> None: ...

    start(Session, Query, Refunds)


@refused_at_start(
    f"2 pods are called 'ledger': Ledger ({__name__}) and OtherLedger ({__name__}).",
    'Give one of them another name: @Pod(name="other_ledger").',
)
def duplicate_name() -> None:
    @Pod(name="ledger")
    class OtherLedger: ...

    start(Ledger, OtherLedger)


@refused_at_start(
    "Worker is started and stopped with the application (ILifecycle), "
    "so it must be a singleton made at start.",
    "Remove lazy=True from Worker.",
)
def lazy_lifecycle() -> None:
    @Pod(lazy=True)
    class Worker(ILifecycle): ...

    start(Worker)


@refused_at_start(
    "make_ledger is made by an async factory, so it must be a singleton made at start.",
    "Remove scope=Scope.PROTOTYPE from make_ledger.",
)
def async_prototype() -> None:
    @Pod(scope=Scope.PROTOTYPE)
    async def make_ledger() -> Ledger: ...

    start(make_ledger)


@refused_at_start(
    "Wrapper is a post-processor, so it must be a singleton made at start.",
    "Remove lazy=True from Wrapper.",
)
def lazy_post_processor() -> None:
    @Pod(lazy=True)
    class Wrapper(IPostProcessor): ...

    start(Wrapper)


@refused_at_start(
    "make_ledger is a prototype with a cleanup, and nothing ends that could run it.",
    "Make it a singleton or a context pod, or return the pod instead of yielding it.",
)
def prototype_with_cleanup() -> None:
    @Pod(scope=Scope.PROTOTYPE)
    def make_ledger() -> Iterator[Ledger]:
        yield Ledger()

    start(make_ledger)


@refused_at_start(
    "Bank is bound to Ledger, which does not implement it.",
    "Let Ledger derive from Bank, or bind another class.",
)
def bound_to_stranger() -> None:
    asyncio.run(Application("shop").bind(Bank, Ledger).start())


@refused_at_start(
    "Notifier is bound to Ledger, which does not implement it.",
    "Give Ledger what it lacks (close and notify), or bind another class.",
)
def bound_to_incomplete_class() -> None:
    asyncio.run(Application("shop").bind(Notifier, Ledger).start())


@refused_at_start(
    "Bank is bound to make_ledger, which does not implement it.",
    "Let make_ledger return Bank, or bind another factory.",
)
def bound_to_wrong_factory() -> None:
    @Pod
    def make_ledger() -> Ledger: ...

    asyncio.run(Application("shop").bind(Bank, make_ledger).start())


@refused(
    PodDefinitionError,
    "bind('bank', ...): the first argument is the type to provide. Write bind(SomeType, ...).",
)
def bound_name() -> None:
    Application("shop").bind("bank", Ledger)


@refused(
    PodDefinitionError,
    "add(math): a module is not a pod. Write scan(math) to add the pods in it.",
)
def added_module() -> None:
    Application("shop").add(math)


@refused(
    PodDefinitionError,
    "add(Repository[User]): a type with arguments cannot be made. "
    "Add a class that derives from Repository[User].",
)
def added_generic() -> None:
    Application("shop").add(Repository[User])


@refused(CallerError, "describe('svg'): there is no such format. Use 'text' or 'mermaid'.")
def unknown_description() -> None:
    Application("shop").describe("svg")


@refused(
    PodDefinitionError,
    "add(UseCase(...)): this decorates nothing yet. Write @UseCase(...) above a class.",
)
def added_annotation() -> None:
    Application("shop").add(UseCase())


@refused(
    PodDefinitionError,
    "add('sqlite://'): str does not identify a pod. Wrap the value in a class of its own (@Configuration).",
)
def added_text() -> None:
    Application("shop").add("sqlite://")


@refused(
    PodDefinitionError,
    "scan('no_such_shop.adapters'): there is no module 'no_such_shop'. "
    "Write the dotted name of a package or module that can be imported, or pass the module itself.",
)
def scanned_nothing() -> None:
    Application("shop").scan("no_such_shop.adapters")


@refused(
    ApplicationStateError,
    "Application 'shop' is not started: get() comes too early. "
    "Start it first: async with app: ..., or with app: ... where there is no event loop.",
)
def get_before_start() -> None:
    Application("shop").add(Ledger).get(Ledger)


@refused(
    ApplicationStateError,
    "Application 'shop' is started: add() comes too late. "
    "Call it before the start, or make a new Application.",
)
def add_after_start() -> None:
    with Application("shop") as app:
        app.add(Ledger)


@refused(
    ApplicationStateError,
    "Application 'shop' is stopped: get() comes too late. Call it before the end of the with block.",
)
def get_after_stop() -> None:
    with Application("shop").add(Ledger) as app:
        pass
    app.get(Ledger)


@refused(
    ApplicationStateError,
    "Application 'shop': `with app` cannot wait inside a running event loop. Write: async with app: ...",
)
def blocking_in_event_loop() -> None:
    async def main() -> None:
        with Application("shop"):
            pass

    asyncio.run(main())


@refused(
    PodNotFoundError,
    f"Nothing provides Ledger. Add it: app.add(Ledger), or decorate it with @Pod and scan {__name__}.",
)
def get_unknown() -> None:
    with Application("shop") as app:
        app.get(Ledger)


@refused(
    PodNotFoundError,
    "2 pods provide Ledger: Ledger and Ledger. "
    'Ask for one by name: get(Ledger, "ledger"), or for all: get_all(Ledger).',
)
def get_one_of_two() -> None:
    with Application("shop").add(Ledger(), Ledger()) as app:
        app.get(Ledger)


@refused(
    PodNotFoundError,
    "Nothing provides Ledger called 'backup'. Give the pod that name: @Pod(name=\"backup\"). "
    "Near miss: Ledger is provided under the name 'ledger'.",
)
def get_by_wrong_name() -> None:
    with Application("shop").add(Ledger) as app:
        app.get(Ledger, "backup")


@refused(
    ContextNotActiveError,
    "Session lives in a context and none is active. Open one around the call: with app.context(): ...",
)
def context_pod_outside_a_context() -> None:
    @Pod(scope=Scope.CONTEXT)
    class Session: ...

    with Application("shop").add(Session) as app:
        app.get(Session)


@refused(
    PodDefinitionError,
    "Forgetful.post_process returned None for Ledger. Return the pod, or what is to stand in its place.",
)
def post_processor_that_forgets() -> None:
    class Forgetful(IPostProcessor):
        def post_process(self, pod: object) -> object:
            return None

    start(Forgetful, Ledger)


@refused(
    PodDefinitionError,
    "make_ledger ended without a yield. Yield the pod exactly once.",
)
def generator_that_never_yields() -> None:
    @Pod
    def make_ledger() -> Iterator[Ledger]:
        if math.inf < 0:
            yield Ledger()

    start(make_ledger)


@refused(
    PodDefinitionError,
    "make_ledger ended without a yield. Yield the pod exactly once.",
)
def async_generator_that_never_yields() -> None:
    @Pod
    async def make_ledger() -> AsyncIterator[Ledger]:
        if math.inf < 0:
            yield Ledger()

    start(make_ledger)


@refused(
    ApplicationStateError,
    "make_late_ledger cannot be made yet: the application is starting. "
    "Take it as a constructor parameter, or get it in start() of an ILifecycle.",
)
def getting_what_needs_waiting_too_early() -> None:
    class Impatient:
        def __init__(self, app: Application) -> None:
            app.get(Ledger)

    @Pod
    async def make_late_ledger() -> Ledger:
        return Ledger()

    start(Impatient, make_late_ledger)


class Snake:
    def __init__(self, app: Application) -> None:
        app.get(Tail)


class Tail:
    def __init__(self, snake: Snake) -> None: ...


@refused(
    ApplicationStateError,
    "Snake cannot be made yet: the application is starting. "
    "Take it as a constructor parameter, or get it in start() of an ILifecycle.",
)
def getting_what_needs_oneself() -> None:
    start(Snake, Tail)


@refused(
    ApplicationStateError,
    "Ledger cannot be made yet: the application is starting. "
    "Take it as a constructor parameter, or get it in start() of an ILifecycle.",
)
def getting_a_pod_in_the_constructor_of_a_post_processor() -> None:
    class Hasty(IPostProcessor):
        def __init__(self, app: Application) -> None:
            app.get(Ledger)

    start(Hasty, Ledger)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.define.__name__)
def test_a_wrong_definition_says_what_to_write_instead(refusal: Refusal) -> None:
    with pytest.raises(refusal.error) as caught:
        refusal.define()
    assert type(caught.value) is refusal.error
    assert str(caught.value) == refusal.message


def test_an_unknown_plugin_is_refused_with_the_installed_ones() -> None:
    with pytest.raises(PluginError, match=r"no plugin 'no-such-plugin' is installed\. Installed are: "):
        Application("shop").load_plugins(include=["no-such-plugin"])
