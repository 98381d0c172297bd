"""What type checkers infer about the container; importing this module runs the right uses.

A wrong use carries an ignore comment. An ignore that is not needed is an error, so wrong uses stay wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, NewType, Protocol, TypeVar, assert_type

from pilotage.container import Application, Configuration, IContainer, Pod, Scope, UseCase

T = TypeVar("T")
Greeting = NewType("Greeting", str)


class User: ...


class Repository(Generic[T]):
    def all(self) -> list[T]:
        return []


class Port(ABC):
    @abstractmethod
    def use(self) -> int: ...


class Structural(Protocol):
    def use(self) -> int: ...


@Pod
class Bare(Port):
    def __init__(self, size: int = 3) -> None:
        self.size = size

    def use(self) -> int:
        return self.size


@Pod(name="other", scope=Scope.PROTOTYPE, primary=True, order=1)
class WithOptions: ...


@UseCase
class Role: ...


@Configuration(lazy=True)
class Settings: ...


@dataclass(kw_only=True, eq=False)
class Versioned(Pod):
    """A stereotype with a field of its own."""

    version: int = 1


@Versioned(version=2, name="second")
class Second: ...


@Pod
def make_users(size: int = 3) -> Repository[User]:
    _ = size
    return Repository()


@Versioned(version=2)
async def make_greeting() -> AsyncIterator[Greeting]:
    yield Greeting("hello")


def decorated_targets_keep_their_types() -> None:
    assert_type(Bare(3).size, int)
    assert_type(WithOptions(), WithOptions)
    assert_type(Role(), Role)
    assert_type(Settings(), Settings)
    assert_type(Second(), Second)
    assert_type(make_users(3), Repository[User])
    assert_type(make_greeting, Callable[[], AsyncIterator[Greeting]])


def annotations_are_found_with_their_own_type() -> None:
    assert_type(Versioned.get(Second), Versioned)
    assert_type(Versioned.get(Second).version, int)
    assert_type(Pod.get_or_none(Second), Pod | None)
    assert_type(Pod.exists(Second), bool)
    assert_type(Pod(name="x"), Pod)


def look_ups_infer_the_type(app: Application, container: IContainer) -> None:
    assert_type(app.get(Bare), Bare)
    assert_type(app.get(Port, "bare"), Port)
    assert_type(app.get(Structural), Structural)
    assert_type(app.get(Repository[User]), Repository[User])
    assert_type(app.get(Repository[User]).all(), list[User])
    assert_type(app.get_or_none(Port), Port | None)
    assert_type(app.get_all(Structural), list[Structural])
    assert_type(app.contains(Port), bool)
    assert_type(container.get(Structural), Structural)


def the_application_is_fluent() -> Application:
    app = Application("typing").add(Bare, Role, make_users, Settings()).bind(Port, Bare)
    assert_type(app, Application)
    assert_type(app.scan("pilotage.container.pod").load_plugins(include=[]), Application)
    return app


def wrong_uses(app: Application) -> None:
    Pod("name")  # pyright: ignore[reportArgumentType]
    Pod(label="name")  # pyright: ignore[reportCallIssue]
    Versioned(version="two")  # pyright: ignore[reportArgumentType]
    Pod(scope="request")  # pyright: ignore[reportArgumentType]
    app.get("bare")  # pyright: ignore[reportArgumentType]
    _ = app.get(Bare).missing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
    _ = app.get_or_none(Bare).size  # pyright: ignore[reportOptionalMemberAccess]
    app.bind("Port", Bare)  # pyright: ignore[reportArgumentType]
    app.describe("svg")  # pyright: ignore[reportArgumentType]


decorated_targets_keep_their_types()
annotations_are_found_with_their_own_type()
with the_application_is_fluent() as started:
    assert started.get(Port).use() == 3
