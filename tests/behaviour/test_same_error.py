"""A program gets the same error live and in replay: a declared class with its data, or a plain ToolError."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from tests.behaviour.bureau import WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import OUTSIDE, UNGATED, Worker

from pilotage import PII, Agent, Idempotency, Pod, SensitiveField, ToolEffects, agent_tool
from pilotage.agent import SealedRecord
from pilotage.errors import (
    AgentDefinitionError,
    AgentMemoryError,
    AgentToolDispatchError,
    ModelCallError,
    ToolError,
)
from pilotage.runtime import step

READ = ToolEffects.read_only()


class OutOfStock(ToolError):  # noqa: N818 - as people name them
    """An error with a constructor of its own."""

    def __init__(self, item: str, *, left: int, price: Decimal) -> None:
        super().__init__(f"no {item}, {left} left")
        self.item, self.left, self.price = item, left, price


class NoApples(OutOfStock):
    """A declared error more precisely."""


@dataclass
class Closed(ToolError):  # noqa: N818 - as people name them
    """An error whose data are fields."""

    until: str
    code = "shop_closed"

    def __str__(self) -> str:
        return f"closed until {self.until}"


class Undeclared(ToolError):  # noqa: N818 - as people name them
    """An error that nobody declared."""


class WithSocket(OutOfStock):
    """An error with data that cannot be recorded."""

    def __init__(self) -> None:
        super().__init__("apple", left=0, price=Decimal(1))
        self.socket = object()


class ProviderError(ModelCallError):
    """A class of an adapter."""


@Pod
class Shelf:
    """Raises what it is given."""

    def __init__(self) -> None:
        self.error: Exception = ToolError("none")
        self.calls = 0

    @agent_tool(effects=READ, errors=[OutOfStock, Closed])
    async def look(self) -> str:
        """Look, and fail."""
        self.calls += 1
        raise self.error

    @agent_tool(effects=READ, errors=[OutOfStock])
    async def look_for(self, account: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> str:
        """Look for something of a person, and fail."""
        raise OutOfStock(account, left=0, price=Decimal(1))

    @agent_tool(
        effects=OUTSIDE,
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        errors=[OutOfStock, Closed],
    )
    async def take(self) -> str:
        """Take something, and fail."""
        self.calls += 1
        raise self.error


APPLE = OutOfStock("apple", left=0, price=Decimal("1.50"))
STEPS = hired("steps")

# What the tool raises, and the class, the words and the data that the program gets.
CASES: Sequence[tuple[Exception, type[Exception], str, dict[str, object]]] = [
    (APPLE, OutOfStock, "no apple, 0 left", {"item": "apple", "left": 0, "price": Decimal("1.50")}),
    (
        NoApples("apple", left=0, price=Decimal(1)),
        OutOfStock,
        "no apple, 0 left",
        {"item": "apple", "left": 0, "price": Decimal(1)},
    ),
    (Closed("Monday"), Closed, "closed until Monday", {"until": "Monday"}),
    (Undeclared("why"), ToolError, "why", {}),
    (WithSocket(), ToolError, "no apple, 0 left", {}),
    (ToolError("plain"), ToolError, "plain", {}),
    (ToolError(), ToolError, "The tool failed.", {}),
]
OF_THE_LIBRARY: Sequence[tuple[Exception, type[Exception], str, dict[str, object]]] = [
    (AgentMemoryError("gone"), AgentMemoryError, "gone", {}),
    (AgentToolDispatchError("sync"), AgentToolDispatchError, "sync", {}),
    (
        ProviderError("busy", retryable=True, failure="overload"),
        ModelCallError,
        "busy",
        {"retryable": True, "failure": "overload"},
    ),
]


async def caught(act: Callable[[], Awaitable[object]]) -> tuple[type[Exception], str, dict[str, object]]:
    """Return class, words and data of the error that a call raises."""
    try:
        await act()
    except Exception as error:  # noqa: BLE001 - that is what the program gets
        return type(error), str(error), {name: each for name, each in vars(error).items() if name[:2] != "__"}
    raise AssertionError("it did not fail")


async def live_and_replayed(act: Callable[[], Awaitable[object]]) -> list[Any]:
    """Return what a program gets of a call in the first attempt and in the second."""
    bureau, got = Bureau(), list[Any]()

    async def program(worker: Worker) -> object:
        got.append(await caught(act))
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(STEPS, program) as runs:
        waiting = await started(runs, STEPS)
        assert triple(waiting.state) == WAITING
        await resumed(runs, waiting.state.id)
    return got


@pytest.mark.parametrize(("raised", "kind", "words", "data"), CASES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("how", ["read", "effect", "step"])
async def test_a_definite_failure_is_the_same_live_and_in_replay(
    how: str, raised: Exception, kind: type[Exception], words: str, data: dict[str, object]
) -> None:
    shelf = Shelf()
    shelf.error = raised

    def failing() -> str:
        shelf.calls += 1
        raise raised

    async def in_step() -> object:
        return await step("look", failing, errors=[OutOfStock, Closed])

    act = {"read": shelf.look, "effect": shelf.take, "step": in_step}[how]
    assert await live_and_replayed(act) == [(kind, words, data)] * 2
    assert shelf.calls == 1


@pytest.mark.parametrize(
    ("raised", "kind", "words", "data"), OF_THE_LIBRARY, ids=lambda each: type(each).__name__
)
async def test_errors_of_the_library_keep_their_class_and_no_others(
    raised: Exception, kind: type[Exception], words: str, data: dict[str, object]
) -> None:
    shelf = Shelf()
    shelf.error = raised
    assert await live_and_replayed(shelf.look) == [(kind, words, data)] * 2


async def test_data_of_a_tool_with_sensitive_arguments_are_not_shown() -> None:
    bureau, got = Bureau(), list[Any]()

    async def program(worker: Worker) -> object:
        got.append(await caught(lambda: Shelf().look_for("DE-17")))
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(STEPS, program) as runs:
        waiting = await started(runs, STEPS)
        await resumed(runs, waiting.state.id)
    (row,) = [row for row in await bureau.rows(waiting.state.id) if row.action_id.endswith("look_for#1")]
    assert row.view == {"asked": {"account": "[REDACTED]"}, "error": "no DE-17, 0 left"}
    assert isinstance(row.record, SealedRecord)
    assert [(kind, data["item"]) for kind, _, data in got] == [(OutOfStock, "DE-17")] * 2


async def test_an_ephemeral_run_gets_the_same_error() -> None:
    shelf, got = Shelf(), list[Any]()
    shelf.error = NoApples("apple", left=1, price=Decimal(1))

    @Agent
    class Passing(Worker):
        """Does what it is told."""

    async def program(worker: Worker) -> object:
        got.append(await caught(shelf.look))
        shelf.error = Undeclared("why")
        got.append(await caught(shelf.look))
        return "done"

    async with Bureau().process(Passing, program) as runs:
        await started(runs, Passing)
    assert [kind for kind, _, _ in got] == [OutOfStock, ToolError]


async def test_a_class_that_is_declared_no_more_comes_as_a_plain_error() -> None:
    bureau, got = Bureau(), list[Any]()

    def program(errors: Sequence[type[ToolError]]) -> Callable[[Worker], Awaitable[object]]:
        def failing() -> str:
            raise APPLE

        async def body(worker: Worker) -> object:
            got.append(await caught(lambda: step("look", failing, errors=errors)))
            return (await worker.desk.refund(Decimal(1))).number

        return body

    async with bureau.process(STEPS, program([OutOfStock])) as runs:
        waiting = await started(runs, STEPS)
    async with bureau.process(STEPS, program([])) as runs:
        await resumed(runs, waiting.state.id)
    assert [(kind, words) for kind, words, _ in got] == [
        (OutOfStock, "no apple, 0 left"),
        (ToolError, "no apple, 0 left"),
    ]


class OutOfStockAgain(ToolError):  # noqa: N818 - as people name them
    code = "out_of_stock"


class Busy(ToolError):  # noqa: N818 - as people name them
    code = "model_call_error"


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([ToolError], "derive from ToolError"),
        ([ValueError], "derive from ToolError"),
        (OutOfStock, "derive from ToolError"),
        ([APPLE], "derive from ToolError"),
        ([OutOfStock, OutOfStockAgain], "code 'out_of_stock'"),
        ([Busy], "code 'model_call_error'"),
    ],
)
async def test_a_declaration_that_cannot_hold_is_refused(errors: Any, words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):

        @agent_tool(errors=errors)
        async def look(self: object) -> str:
            """Look."""
            return ""

    done: list[str] = []

    async def program(worker: Worker) -> object:
        with pytest.raises(AgentDefinitionError, match=words):
            await step("look", lambda: done.append("look"), errors=errors)
        return f"{done}"

    async with Bureau().process(STEPS, program) as runs:
        assert (await started(runs, STEPS)).output == "[]"
