"""A changed release goes on with a recorded run where the change is harmless: new parameters, defaults, names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest
from tests.behaviour.bureau import WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import OUTSIDE, UNGATED, Worker

from pilotage import AgentStatus, AgentToolRuntimeContext, Idempotency, Pod, ToolEffects, agent_tool
from pilotage.agent import discover_agent_tools
from pilotage.agent.run_values import RunResult
from pilotage.errors import AgentDefinitionError
from pilotage.testing import StopAfter, StopBefore

AGENT = hired("payer")
Body = Callable[[], Awaitable[object]]


class Bank:
    """What is outside: the payments, with their arguments and keys."""

    def __init__(self) -> None:
        self.paid: list[tuple[object, ...]] = []
        self.keys: list[str] = []

    def pay(self, context: AgentToolRuntimeContext, *what: object) -> str:
        self.paid.append(what)
        self.keys.append(context.idempotency_key)
        return f"{len(self.paid)}"


@Pod
class First:
    """The release that begins a run."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False)
    async def pay(self, runtime_context: AgentToolRuntimeContext, item: str, note: str = "first") -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item, note)

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, item: str, unit: str = "one") -> int:
        """Return a price."""
        return len(item + unit)


@Pod
class WithMore:
    """A release with one more parameter for each tool."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False)
    async def pay(
        self,
        runtime_context: AgentToolRuntimeContext,
        item: str,
        note: str = "first",
        *,
        urgent: bool = False,
    ) -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item, note, urgent)

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, item: str, unit: str = "one", tax: int | None = None) -> int:
        """Return a price."""
        return 0


@Pod
class WithOtherDefaults:
    """A release with other defaults."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False)
    async def pay(self, runtime_context: AgentToolRuntimeContext, item: str, note: str = "other") -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item, note)

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, item: str, unit: str = "dozen") -> int:
        """Return a price."""
        return 0


@Pod
class WithoutNote:
    """A release whose tool has lost a parameter, and one whose parameter has another type."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False)
    async def pay(self, runtime_context: AgentToolRuntimeContext, item: str) -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item)


@Pod
class WithNumbers:
    """A release in which a parameter with a default has another type."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False)
    async def pay(self, runtime_context: AgentToolRuntimeContext, item: str, note: int = 0) -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item, note)


@Pod
class Renamed:
    """A release in which the tools have other names."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @agent_tool(
        effects=OUTSIDE,
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNGATED,
        formerly=["pay_out", "pay"],
        reads_untrusted=False,
    )
    async def transfer(self, runtime_context: AgentToolRuntimeContext, item: str, note: str = "first") -> str:
        """Pay."""
        return self.bank.pay(runtime_context, item, note)


def program(body: Body) -> Callable[[Worker], Awaitable[object]]:
    """A program that makes some calls, and then one that a person has to approve."""

    async def run(worker: Worker) -> object:
        given = await body()
        await worker.desk.refund(Decimal(1))
        return str(given)

    return run


async def released(before: Body, after: Body) -> RunResult:
    """Let one release make its calls, and go on with the next one."""
    bureau = Bureau()
    async with bureau.process(AGENT, program(before)) as runs:
        waiting = await started(runs, AGENT)
        assert triple(waiting.state) == WAITING
    async with bureau.process(AGENT, program(after)) as runs:
        for question in await runs.questions(waiting.state.id):
            await runs.approve(question.id)
        return await resumed(runs, waiting.state.id)


async def crashed(before: Body, after: Body, commits: int = 2) -> RunResult:
    """Let the process of one release die when a call has begun, and go on with the next release."""
    bureau = Bureau()
    run_id = await bureau.dead_process(AGENT, program(before), fault=StopAfter(commits))
    async with bureau.process(AGENT, program(after)) as runs:
        return await resumed(runs, run_id)


@pytest.mark.parametrize("release", [WithMore, WithOtherDefaults], ids=lambda each: each.__name__)
async def test_new_parameters_and_other_defaults_are_no_divergence(release: type[WithMore]) -> None:
    bank = Bank()

    async def before() -> object:
        pod = First(bank)
        return [
            await pod.price("apple"),
            await pod.pay(item="apple"),
            await pod.pay(item="pear", note="mine"),
        ]

    async def after() -> object:
        pod = release(bank)
        return [
            await pod.price("apple"),
            await pod.pay(item="apple"),
            await pod.pay(item="pear", note="mine"),
        ]

    result = await released(before, after)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "[8, '1', '2']")
    assert bank.paid == [("apple", "first"), ("pear", "mine")]


async def test_another_argument_is_still_a_divergence() -> None:
    bank = Bank()
    result = await released(lambda: First(bank).pay(item="apple"), lambda: First(bank).pay(item="pear"))
    assert "divergence" in result.state.metadata
    assert bank.paid == [("apple", "first")]


@pytest.mark.parametrize(
    ("release", "paid"),
    [
        (First, ("a", "first")),
        (WithOtherDefaults, ("a", "first")),
        (WithMore, ("a", "first", False)),
        (WithoutNote, ("a",)),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
async def test_a_repetition_has_the_arguments_of_the_execution(
    release: type[First], paid: tuple[object, ...]
) -> None:
    bank = Bank()
    result = await crashed(lambda: First(bank).pay(item="a"), lambda: release(bank).pay(item="a"))
    assert triple(result.state) == WAITING
    assert bank.paid == [paid]


async def test_a_repetition_that_the_tool_does_not_take_any_more_diverges() -> None:
    bank = Bank()
    result = await crashed(lambda: First(bank).pay(item="a"), lambda: WithNumbers(bank).pay(item="a"))
    assert "divergence" in result.state.metadata
    assert "'note' should be a valid integer" in str(result.state.current_activity)
    assert bank.paid == []


async def test_a_fingerprint_of_all_arguments_still_counts() -> None:
    # Rows of an earlier version have the digest of all arguments, as a call that gives all of them has.
    bank = Bank()
    before, after = First(bank).pay, First(bank).pay
    result = await released(lambda: before(item="a", note="first"), lambda: after(item="a"))
    assert result.status is AgentStatus.COMPLETED
    assert bank.paid == [("a", "first")]


async def test_a_branch_that_was_named_by_all_arguments_is_still_found() -> None:
    bank = Bank()

    async def both(*calls: Awaitable[str]) -> object:
        return await asyncio.gather(*calls)

    pod = First(bank)
    result = await released(
        lambda: both(pod.pay(item="a", note="first"), pod.pay(item="b", note="first")),
        lambda: both(pod.pay(item="a"), pod.pay(item="b")),
    )
    assert result.status is AgentStatus.COMPLETED
    assert bank.paid == [("a", "first"), ("b", "first")]


async def test_recorded_calls_of_a_former_name_are_calls_of_the_renamed_tool() -> None:
    bank = Bank()

    async def before() -> object:
        pod = First(bank)
        return [await pod.pay(item="a"), *await asyncio.gather(pod.pay(item="b"), pod.pay(item="c"))]

    async def after() -> object:
        pod = Renamed(bank)
        paid = [
            await pod.transfer(item="a"),
            *await asyncio.gather(pod.transfer(item="b"), pod.transfer(item="c")),
        ]
        return [*paid, await pod.transfer(item="d") if len(bank.paid) > 3 else "-"]

    result = await released(before, after)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "['1', '2', '3', '-']")
    assert [item for item, _ in bank.paid] == ["a", "b", "c"]


async def test_a_renamed_tool_finds_its_recorded_calls() -> None:
    bureau, bank = Bureau(), Bank()

    async def before() -> object:
        return await First(bank).pay(item="a")

    async def after() -> object:
        return await Renamed(bank).transfer(item="a")

    run_id = await bureau.dead_process(AGENT, program(before), fault=StopAfter(3))
    for _ in range(2):
        async with bureau.process(AGENT, program(after)) as runs:
            assert triple((await resumed(runs, run_id)).state) == WAITING
    assert bank.paid == [("a", "first")]


async def test_a_renamed_tool_is_repeated_with_the_same_key() -> None:
    bureau, bank = Bureau(), Bank()
    run_id = await bureau.dead_process(AGENT, program(lambda: First(bank).pay(item="a")), fault=StopBefore(3))
    async with bureau.process(AGENT, program(lambda: Renamed(bank).transfer(item="a"))) as runs:
        await resumed(runs, run_id)
    first, again = bank.keys
    assert first == again


@Pod
class Both:
    @agent_tool(effects=ToolEffects.read_only(), formerly=["pay"])
    async def transfer(self) -> str:
        """Pay."""
        return ""

    @agent_tool(effects=ToolEffects.read_only())
    async def pay(self) -> str:
        """Pay otherwise."""
        return ""


@Pod
class Twice:
    @agent_tool(effects=ToolEffects.read_only(), formerly=["pay"])
    async def transfer(self) -> str:
        """Pay."""
        return ""

    @agent_tool(effects=ToolEffects.read_only(), formerly=["pay"])
    async def send(self) -> str:
        """Pay otherwise."""
        return ""


@pytest.mark.parametrize("owner", [Both, Twice])
def test_a_former_name_that_another_tool_has_is_refused(owner: type) -> None:
    with pytest.raises(AgentDefinitionError, match="was formerly 'pay', and so is or was"):
        discover_agent_tools(owner)


@pytest.mark.parametrize("formerly", ["pay", [""], [3], 3])
def test_former_names_are_a_list_of_names(formerly: object) -> None:
    with pytest.raises(AgentDefinitionError, match="formerly is"):

        @agent_tool(formerly=formerly)  # type: ignore[arg-type]
        async def pay(self: object) -> str:
            """Pay."""
            return ""
