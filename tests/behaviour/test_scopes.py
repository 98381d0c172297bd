"""Stories about factories, prototypes, lazy singletons and contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from threading import Barrier, Thread
from typing import ClassVar

import pytest

from pilotage.container import (
    Application,
    Configuration,
    Pod,
    Scope,
)
from pilotage.errors import (
    ContextNotActiveError,
)


class User: ...


class Order: ...


class Users: ...


class Diary(list[str]):
    """Where the pods of these stories write what happens to them."""


@Configuration
class Settings:
    url = "bank.example"


class Connection:
    def __init__(self, url: str) -> None:
        self.url = url


@Pod
async def connection(settings: Settings, diary: Diary) -> AsyncIterator[Connection]:
    diary.append("connect")
    yield Connection(settings.url)
    diary.append("disconnect")


class Cache:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection


@Pod
def cache(connection: Connection, diary: Diary) -> Iterator[Cache]:
    diary.append("open cache")
    yield Cache(connection)
    diary.append("close cache")


@Pod
async def late_order(diary: Diary) -> Order:
    diary.append("order")
    return Order()


async def test_what_follows_a_factory_s_yield_runs_at_stop_in_reverse() -> None:
    diary = Diary()
    async with Application("shop").add(diary, Settings, cache, connection, late_order) as app:
        assert app.get(Cache).connection.url == "bank.example"
        assert diary == ["connect", "open cache", "order"]
    assert diary[3:] == ["close cache", "disconnect"]


@Pod(scope=Scope.PROTOTYPE)
class Basket:
    def __init__(self, users: Users) -> None:
        self.users = users


async def test_a_prototype_is_made_anew_each_time() -> None:
    async with Application("shop").add(Basket, Users) as app:
        assert app.get(Basket) is not app.get(Basket)
        assert app.get(Basket).users is app.get(Users)


@Pod(lazy=True)
class Expensive:
    made: ClassVar[int] = 0

    def __init__(self) -> None:
        type(self).made += 1


async def test_a_lazy_singleton_is_made_once_when_it_is_first_asked_for() -> None:
    Expensive.made = 0
    async with Application("shop").add(Expensive) as app:
        assert Expensive.made == 0
        together = Barrier(4)

        def ask() -> None:
            together.wait()
            app.get(Expensive)

        threads = [Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Expensive.made == 1
        assert app.get(Expensive) is app.get(Expensive)


class NeedsExpensive:
    def __init__(self, expensive: Expensive) -> None:
        self.expensive = expensive


async def test_a_lazy_singleton_that_an_eager_one_needs_is_made_at_start() -> None:
    Expensive.made = 0
    async with Application("shop").add(NeedsExpensive, Expensive):
        assert Expensive.made == 1


class Session: ...


@Pod(scope=Scope.CONTEXT)
def session(diary: Diary) -> Iterator[Session]:
    diary.append("begin")
    yield Session()
    diary.append("commit")


@Pod(scope=Scope.CONTEXT)
class UnitOfWork:
    def __init__(self, session: Session) -> None:
        self.session = session


async def test_a_context_keeps_its_pods_and_cleans_up_at_its_end() -> None:
    diary = Diary()
    async with Application("shop").add(diary, session, UnitOfWork) as app:
        with app.context():
            assert app.get(UnitOfWork).session is app.get(Session)
            assert diary == ["begin"]
        assert diary == ["begin", "commit"]
        with pytest.raises(ContextNotActiveError):
            app.get(Session)


async def test_nested_contexts_have_pods_of_their_own() -> None:
    async with Application("shop").add(Diary, session) as app:
        with app.context():
            outer = app.get(Session)
            with app.context():
                assert app.get(Session) is not outer
            assert app.get(Session) is outer


async def test_contexts_of_two_applications_do_not_mix() -> None:
    async with (
        Application("one").add(Diary, session) as one,
        Application("two").add(Diary, session) as two,
    ):
        with one.context(), two.context():
            assert one.get(Session) is not two.get(Session)
        with one.context(), pytest.raises(ContextNotActiveError):
            two.get(Session)


async def test_concurrent_tasks_have_contexts_of_their_own_and_share_the_one_they_were_started_in() -> None:
    async with Application("shop").add(Diary, session) as app:

        async def handle() -> Session:
            with app.context():
                mine = app.get(Session)
                await asyncio.sleep(0)
                assert app.get(Session) is mine
                return mine

        first, second = await asyncio.gather(handle(), handle())
        assert first is not second

        async def ask() -> Session:
            return app.get(Session)

        with app.context():
            assert await asyncio.create_task(ask()) is app.get(Session)


async def test_a_task_that_outlives_its_context_is_told_so() -> None:
    async with Application("shop").add(Diary, session) as app:
        ended = asyncio.Event()

        async def linger() -> None:
            await ended.wait()
            app.get(Session)

        with app.context():
            task = asyncio.create_task(linger())
        ended.set()
        with pytest.raises(ContextNotActiveError, match="a context that has ended before this task"):
            await task


async def test_a_context_may_be_left_in_another_task_than_it_was_entered() -> None:
    diary = Diary()
    async with Application("shop").add(diary, session) as app:
        context = app.context()

        async def enter() -> None:
            context.__enter__()
            app.get(Session)

        await asyncio.create_task(enter())
        context.__exit__(None, None, None)
        assert diary == ["begin", "commit"]


@Pod(scope=Scope.CONTEXT)
def stubborn() -> Iterator[Order]:
    yield Order()
    raise OSError("cannot close")


def use_in_context(app: Application, *types: type, fail: bool = False) -> None:
    with app.context():
        for type_ in types:
            app.get(type_)
        _ = 1 / (not fail)


async def test_a_failing_cleanup_of_a_context_does_not_hide_the_error_of_its_block() -> None:
    diary = Diary()
    async with Application("shop").add(diary, session, stubborn) as app:
        with pytest.raises(ExceptionGroup) as caught:
            use_in_context(app, Session, Order)
        assert [str(error) for error in caught.value.exceptions] == ["cannot close"]
        with pytest.raises(ZeroDivisionError) as of_block:
            use_in_context(app, Order, fail=True)
        assert of_block.value.__notes__ == ["Also, the cleanup of stubborn failed: OSError: cannot close"]
    assert diary == ["begin", "commit"]
