"""The golden runs: how each comes into the state it is stored in, and how a later process goes on with it.

Case names are the callers' ids of the runs. A case that dies is started in a process that is killed when all of them
have reached the place where they are held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pilotage import AgentSignalKind, Principal, RunAgentInput
from pilotage.agent import (
    AgentRecoveryRequest,
    AgentSteeringUpdate,
    IAgentRetention,
    JsonSchemaConstraint,
    JsonValue,
    ModelToolSpec,
    RecoveryDecision,
    RunKey,
)
from pilotage.agent.state import AgentStateReason
from pilotage.runtime import AgentRuns
from tests.golden.agents import (
    EVENT,
    MESSAGE,
    STEERING,
    Banker,
    Bounded,
    Butler,
    Chief,
    Clerk,
    Delegator,
    Desk,
    Editor,
    Listener,
    Planner,
    Player,
    Reader,
    Refiner,
    Rower,
    Teller,
    Typist,
    Witness,
    Worker,
    tenant_budget,
)
from tests.golden.outside import Weather
from tests.golden.place import Place

ADA = Principal("ada")
_PICK = ModelToolSpec(
    "pick",
    JsonSchemaConstraint({"type": "object", "properties": {"of": {"type": "string"}}}),
    "Pick a color.",
)
Act = Callable[[Place, "Case", str], Awaitable[str | None]]


@dataclass(frozen=True)
class Case:
    """One golden run: what it is started with, what is done to it before it is stored, and after."""

    name: str
    agent: type[object]
    given: object
    then: tuple[Act, ...] = ()
    """What happens to the run before it is stored, each in a process of its own; a fork gives the id of the new run."""
    pods: tuple[object, ...] = ()
    breaks: str | None = None
    """A place where its first process meets an error."""
    held_at: str | None = None
    """The place where its process is killed."""
    is_modified: bool = False
    """Whether it asks a person before it comes to that place, who allows that with other arguments."""
    is_cancelled_there: bool = False
    """Whether it is cancelled when it is held; then it is killed while it cleans up."""
    signals: Mapping[str, AgentSignalKind] = field(default_factory=dict)
    """Texts of signals that it still waits for when it is stored."""
    conversation: str | None = None


async def start(runs: AgentRuns, case: Case) -> str:
    """Start the run of a case and let it go as far as it gets."""
    handle = await runs.start(
        case.agent, case.given, id=case.name, principal=ADA, conversation_id=case.conversation
    )
    if case.held_at is None:
        await handle.result()
    return handle.id


async def resume(runs: AgentRuns, run_id: str) -> None:
    """Resume a run and let it go as far as it gets."""
    await (await runs.resume(run_id)).result()


def _approved(*, resumed: bool = True) -> Act:
    async def act(place: Place, case: Case, run_id: str) -> None:
        async with place.process(*case.pods) as app:
            runs = app.get(AgentRuns)
            await runs.approve((await runs.questions(run_id))[0].id, resume=False)
            if resumed:
                await resume(runs, run_id)

    return act


async def _rejected(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        runs = app.get(AgentRuns)
        await runs.reject((await runs.questions(run_id))[0].id, comment="no")
        await resume(runs, run_id)


async def modify(runs: AgentRuns, case: Case, run_id: str) -> None:
    """Allow what a run asks for with other arguments, as soon as it waits."""
    async for _ in runs.events(run_id):
        """Until it pauses."""
    await runs.modify((await runs.questions(run_id))[0].id, {"what": f"{case.name} otherwise"})


async def _modified(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        await modify(app.get(AgentRuns), case, run_id)
        await resume(app.get(AgentRuns), run_id)


async def _cancelled(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        await app.get(AgentRuns).cancel(run_id, reason="no longer needed", principal=ADA)


async def _erased(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        await app.get(IAgentRetention).erase(RunKey("default", run_id))


async def _drafted(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        runs = app.get(AgentRuns)
        await runs.steer(run_id, AgentSteeringUpdate(case.name, "righ", final=False))
        await resume(runs, run_id)


async def _forked(place: Place, case: Case, run_id: str) -> str:
    async with place.process() as app:
        return (await app.get(AgentRuns).fork(run_id)).id


async def _diverged(place: Place, case: Case, run_id: str) -> None:
    async with place.process(weather=Weather(changed=True)) as app:
        await resume(app.get(AgentRuns), run_id)


async def _paused_by_a_person(place: Place, case: Case, run_id: str) -> None:
    async with place.process() as app:
        await app.get(AgentRuns).signal(run_id, AgentSignalKind.PAUSE, {"reason": "it is noon"})


def _sent(text: str, kind: AgentSignalKind = EVENT, *, resumed: bool = False) -> Act:
    async def act(place: Place, case: Case, run_id: str) -> None:
        async with place.process() as app:
            runs = app.get(AgentRuns)
            await runs.signal(run_id, kind, {"text": text}, id=f"{case.name} {text}")
            if resumed:
                await resume(runs, run_id)

    return act


def _worker(name: str, *calls: str) -> dict[str, JsonValue]:
    return {"case": name, "calls": list(calls)}


def _work(name: str, *calls: str, **how: object) -> Case:
    return Case(name, Worker, _worker(name, *calls), **how)  # type: ignore[arg-type]


def _play(name: str, **how: object) -> Case:
    return Case(name, Player, name, **how)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    # Ended.
    Case("completed", Clerk, "[completed] Look."),
    _work(
        "completed-blocks", "now", "uid", "random", "step", "caught", "tell", "talk", "note", "post", "ship"
    ),
    _work("failed", "note", "fail"),
    Case("limited", Bounded, "Go."),
    Case("modified", Clerk, "[modified] Ask.", (_modified,)),
    Case("rejected", Clerk, "[rejected] Ask.", (_rejected,)),
    Case("cancelled", Clerk, "[cancelled] Ask.", (_cancelled,)),
    Case("typed", Typist, "Count."),
    Case("refined", Refiner, "Write."),
    Case("routed", Desk, "What is the weather?"),
    _work("erased", "letter", "note", then=(_erased,)),
    # Waiting for a person.
    Case("approval", Clerk, "[approval] Ask."),
    Case("answered", Clerk, "[answered] Ask.", (_approved(resumed=False),)),
    _work("several", "ask", "note", "ask", then=(_approved(),)),
    _work("recovery", "note", "write", "note", breaks="recovery 1 write"),
    _work("retried", "note", "write", "note", breaks="before retried 1 write"),
    _work("sealed", "letter", "ask"),
    Case("sealed-input", Banker, "DE-0815"),
    Case("redacted", Teller, "Which badge?"),
    _work("talking", "talk", "tell", "ask"),
    _work("blocks", "now", "uid", "random", "step", "caught", "ask"),
    _work("diverged", "changeable", "write", "ask", then=(_diverged,)),
    Case("forked", Clerk, "[forked] Ask.", (_forked,)),
    Case("condensed", Reader, "Read four pages."),
    Case("prompts", Witness, "Ask."),
    Case("memory", Butler, "What do I like?"),
    Case("first-turn", Clerk, "[first turn] I am Ada.", conversation="talk"),
    Case("second-turn", Clerk, "[second turn] Who am I?", conversation="talk"),
    Case("deferred", Clerk, RunAgentInput("deferred", "[deferred] Pick.", deferred_tools=(_PICK,))),
    # Branches, turns and children.
    _work("together", "together", "note"),
    _work("nested", "pack", "note"),
    _play("branches"),
    _play("folded"),
    _play("loop"),
    _play("child-finished"),
    _play("child-waiting"),
    _play("children-in-branches"),
    Case("delegated", Delegator, _worker("delegated", "note", "ask")),
    Case("teammate", Editor, "Write."),
    Case("planned", Planner, "Give it back."),
    Case("supervised", Chief, "How is the weather?"),
    # Signals.
    _work("awaiting", "wait", "note", signals={"at last": EVENT}),
    _work("pending", "wait", "write", then=(_sent("in time"),)),
    _work("consumed", "wait", "ask", then=(_sent("before", resumed=True),)),
    Case("handled", Listener, {"case": "handled"}, (_sent("handled"), _approved())),
    Case("revised", Rower, {"case": "revised"}, (_drafted,), signals={"left": STEERING}),
    Case("steered", Clerk, "[steered] Note.", (_sent("Be brief.", MESSAGE),)),
    _work("paused", "note", "ask", then=(_paused_by_a_person,)),
    # Held by a process that was killed.
    _work("torn-write", "note", "write", "note", held_at="torn-write 1 write"),
    _work("torn-before", "note", "write", "note", held_at="before torn-before 1 write"),
    _work("torn-note", "note", "ask", held_at="torn-note 0 note"),
    _work("torn-stamp", "stamp", "note", held_at="torn-stamp otherwise", is_modified=True),
    _work("torn-post", "post", "ask", held_at="torn-post 0 post"),
    _work("torn-ship", "ship", "ask", held_at="torn-ship 0 ship"),
    _work("torn-stream", "note", "talk", "note", held_at="model [torn-stream] Talk."),
    Case("torn-model", Clerk, "[torn-model] Write.", held_at="model [torn-model] Write."),
    Case("budget", Clerk, "[budget] Note.", pods=(tenant_budget,), held_at="budget note"),
    Case(
        "budget-held", Clerk, "[budget-held] Say.", pods=(tenant_budget,), held_at="model [budget-held] Say."
    ),
    _play("child-torn", held_at="child-torn 0 write"),
    _work("cancelling", "note", "write", held_at="cancelling 1 write", is_cancelled_there=True),
)
BY_NAME = {case.name: case for case in CASES}


async def go_on(place: Place, runs: AgentRuns, case: Case, run_id: str) -> None:
    """Go on with a stored run until it has ended; its questions are answered truthfully."""
    for text, kind in case.signals.items():
        await runs.signal(run_id, kind, {"text": text}, id=f"{case.name} {text}")
    for _ in range(10):
        state = await runs.get(run_id)
        if state.is_terminal or state.reason is AgentStateReason.LIMIT_REACHED:
            return
        for question in await runs.questions(run_id):
            await _answer(place, runs, run_id, question)
        await resume(runs, run_id)
    raise AssertionError(f"run {case.name!r} does not come to its end")


async def _answer(place: Place, runs: AgentRuns, run_id: str, question: object) -> None:
    if not isinstance(question, AgentRecoveryRequest):
        await runs.approve(question.id)  # type: ignore[attr-defined]
        return
    if question.deferred_call:
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, result="red")
        return
    what = str(question.arguments["view"]["what"])  # type: ignore[index, call-overload]
    if what in place.ledger.effects():
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=f"did {what}")
    else:
        await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
