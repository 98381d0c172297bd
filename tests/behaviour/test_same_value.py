"""A program gets what its record gives, live and in replay, in durable and in ephemeral runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import pytest
from tests.behaviour.bureau import RECOVERY, Bureau, hired, resumed, started, triple
from tests.behaviour.office import OUTSIDE, UNGATED, Worker

from pilotage import (
    Agent,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import RecoveryDecision
from pilotage.errors import AgentDefinitionError, AgentToolBindingError, ApplicationStartError, ToolError
from pilotage.runtime import AgentRuns, step
from pilotage.runtime.plugin import initialize

READ = ToolEffects.read_only()


@dataclass
class Animal:
    name: str


@dataclass
class Dog(Animal):
    tricks: int = 0


@Pod
class Zoo:
    """Tools whose functions return other things than they are annotated with."""

    def __init__(self) -> None:
        self.names = ["Rex"]
        self.calls = 0

    @agent_tool(effects=READ)
    async def animal(self) -> Animal:
        """Return a subclass."""
        return Dog("Rex", 3)

    @agent_tool(effects=READ)
    async def listed(self) -> list[str]:
        """Return a list that goes on changing."""
        return self.names

    @agent_tool(effects=READ)
    async def count(self, of: Animal, more: int = 0) -> int:
        """Return a text instead of a number, and change the argument."""
        of.name = "changed"
        return str(more)  # type: ignore[return-value]

    @agent_tool(effects=READ)
    async def broken(self) -> int:
        """Return no number."""
        return None  # type: ignore[return-value]

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def buy(self, name: str) -> Animal:
        """Buy an animal, and return no animal."""
        self.calls += 1
        return name  # type: ignore[return-value]


PLAIN = hired("plain")


@pytest.fixture(params=["durable", "ephemeral"])
def agent(request: pytest.FixtureRequest) -> type[Worker]:
    """The same program in both kinds of runs."""
    if request.param == "durable":
        return PLAIN

    @Agent
    class Passing(Worker):
        """Does what it is told."""

    return Passing


async def given_by(agent: type[Worker], program: Callable[[Worker], Awaitable[object]]) -> object:
    """Return what a program returns."""
    async with Bureau().process(agent, program) as runs:
        return (await started(runs, agent)).output


async def test_a_subclass_comes_as_the_declared_type(agent: type[Worker]) -> None:
    zoo = Zoo()

    async def program(worker: Worker) -> object:
        animal = await zoo.animal()
        return f"{type(animal).__name__} {animal.name}"

    assert await given_by(agent, program) == "Animal Rex"


async def test_a_result_is_a_copy_of_its_own(agent: type[Worker]) -> None:
    zoo = Zoo()

    async def program(worker: Worker) -> object:
        names = await zoo.listed()
        zoo.names.append("Tom")
        names.append("Ada")
        return f"{names} {zoo.names}"

    assert await given_by(agent, program) == "['Rex', 'Ada'] ['Rex', 'Tom']"


async def test_arguments_and_results_are_read_by_their_types(agent: type[Worker]) -> None:
    zoo, dog = Zoo(), Dog("Rex")

    async def program(worker: Worker) -> object:
        return f"{await zoo.count(dog, '7')!r} {dog.name}"  # type: ignore[arg-type]

    assert await given_by(agent, program) == "7 Rex"


async def test_an_argument_of_another_type_is_refused_before_anything_begins(agent: type[Worker]) -> None:
    zoo = Zoo()

    async def program(worker: Worker) -> object:
        with pytest.raises(AgentToolBindingError, match="'name' should be a valid string"):
            await zoo.buy(7)  # type: ignore[arg-type]
        return zoo.calls

    assert await given_by(agent, program) == 0


async def test_a_read_result_that_does_not_fit_is_an_error(agent: type[Worker]) -> None:
    async def program(worker: Worker) -> object:
        with pytest.raises(ToolError, match="'broken' was done, but its result cannot be recorded"):
            await Zoo().broken()
        return "caught"

    assert await given_by(agent, program) == "caught"


async def test_a_result_that_does_not_fit_after_an_effect_is_an_unknown_outcome() -> None:
    bureau, zoo = Bureau(), Zoo()

    async def program(worker: Worker) -> object:
        return (await zoo.buy("Rex")).name

    async with bureau.process(PLAIN, program) as runs:
        paused = await started(runs, PLAIN)
        assert triple(paused.state) == RECOVERY
        (question,) = await runs.questions(paused.state.id)
        assert "took effect, and its result is not known" in question.reason  # type: ignore[union-attr]
        await runs.answer(paused.state.id, question.id, RecoveryDecision.DONE, result={"name": "Tom"})
        assert (await resumed(runs, paused.state.id)).output == "Tom"
    assert zoo.calls == 1


SCALARS = {"price": Decimal("12.50"), "id": [UUID(int=7)], "raw": b"\x00\xff"}


async def test_a_step_needs_no_type_for_json_and_a_few_scalars() -> None:
    bureau, seen = Bureau(), list[object]()

    async def program(worker: Worker) -> object:
        seen.append(await step("facts", lambda: SCALARS))
        return (await worker.desk.refund(Decimal(1))).number

    async with bureau.process(PLAIN, program) as runs:
        waiting = await started(runs, PLAIN)
        await resumed(runs, waiting.state.id)
    assert seen == [SCALARS, SCALARS]


async def test_a_step_declares_what_it_returns(agent: type[Worker]) -> None:
    async def program(worker: Worker) -> object:
        animal = await step("animal", lambda: {"name": "Rex"}, returns=Animal)
        return repr(animal)

    assert await given_by(agent, program) == "Animal(name='Rex')"


class Socket:
    """A type that cannot be read back."""


async def test_a_type_that_cannot_be_read_back_is_refused_before_the_step_acts(agent: type[Worker]) -> None:
    done: list[str] = []

    def opened() -> Socket:
        done.append("opened")
        return Socket()

    async def program(worker: Worker) -> object:
        with pytest.raises(AgentDefinitionError, match="cannot be read back"):
            await step("open", opened)
        with pytest.raises(AgentDefinitionError, match="Socket"):
            await step("open", opened, returns=Socket)
        return f"refused {done}"

    assert await given_by(agent, program) == "refused []"


async def test_an_untyped_value_that_cannot_be_recorded_is_an_unknown_outcome() -> None:
    bureau, done = Bureau(), list[str]()

    def act() -> object:
        done.append("act")
        return Animal("Rex")

    async def program(worker: Worker) -> object:
        return await step("act", act)

    async with bureau.process(PLAIN, program) as runs:
        paused = await started(runs, PLAIN)
        assert triple(paused.state) == RECOVERY
        (question,) = await runs.questions(paused.state.id)
    assert "Declare the type" in question.reason  # type: ignore[union-attr]
    assert done == ["act"]


async def test_a_changed_result_type_diverges_and_gives_the_program_nothing() -> None:
    bureau, seen = Bureau(), list[object]()

    def program(returns: object) -> Callable[[Worker], Awaitable[object]]:
        async def body(worker: Worker) -> object:
            try:
                seen.append(await step("animal", lambda: {"name": "Rex"}, returns=returns))
            except Exception as error:
                seen.append(error)
                raise
            return (await worker.desk.refund(Decimal(1))).number

        return body

    async with bureau.process(PLAIN, program(dict[str, str])) as runs:
        waiting = await started(runs, PLAIN)
    async with bureau.process(PLAIN, program(dict[str, int])) as runs:
        diverged = await resumed(runs, waiting.state.id)
    assert diverged.status is AgentStatus.INTERRUPTED
    assert "does not fit its declared type" in str(diverged.state.current_activity)
    assert seen == [{"name": "Rex"}]


@dataclass
class Unread:
    """A dataclass whose constructor needs what is no field."""

    name: str

    def __init__(self, secret: str) -> None:
        self.name = secret


@Pod
class Office:
    @agent_tool(effects=READ)
    async def unread(self) -> Unread:
        """Return something that cannot be made from its fields."""
        return Unread("x")


@Agent
class Clerk:
    def __init__(self, office: Office) -> None:
        self.office = office

    async def execute(self) -> str:
        return (await self.office.unread()).name


async def test_a_tool_whose_result_cannot_be_read_back_is_refused_at_start_up() -> None:
    app = Application("office").add(Clerk, Office)
    initialize(app)
    with pytest.raises(ApplicationStartError, match="constructor needs 'secret'"):
        async with app:
            app.get(AgentRuns)
