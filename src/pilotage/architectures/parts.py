"""Parts of the work: done by a loop in a scope of its own, or by a worker.

A worker that is an `@Agent` has its own tools, model and limits, and is a run of its own. One that is only a spec has
the tools of the agent that asks it, and instructions, loop and output type of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pilotage.agent.control_tools import NoTools
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Architecture, Dependencies, workers_of
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.moves import StopReason
from pilotage.architectures.prompts import as_text, asked, is_something
from pilotage.architectures.react import React
from pilotage.architectures.turn import close_stream
from pilotage.checks import reject_blank, reject_empty
from pilotage.errors import AgentDefinitionError, StoppedShortError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.architecture.dependencies import with_exits
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.values import value

_SPEAKING = React()
WorkerRef: TypeAlias = AgentRef | AgentExecutionSpec
"""An agent by class or by name, or a spec."""
_OF_A_SPEC = frozenset({"name", "objective", "instructions", "architecture", "output_type", "version"})


async def carry_out(
    base: Architecture, session: AgentSession, deps: Dependencies, name: str, prompt: str
) -> AgentSession:
    """Run a loop on a prompt, with the instructions and messages of a session, and report its events.

    The returned session holds the result. While the session above has no output, the text of the part is its output,
    so that a run that is ended early has the best text so far.
    """
    below = deps.scope_for_worker(name)
    part = below.fresh_session(session.instructions)
    part.messages = list(session.messages)
    has_none = not is_something(session.output)
    events = base.run(part, below, prompt)
    try:
        async for event in events:
            await below.tell(event)
    finally:
        if has_none:
            session.output = part.output
        await close_stream(events)
    return part


async def answer_without_tools(
    session: AgentSession, deps: Dependencies, name: str, prompt: str
) -> AgentSession:
    """Ask the model for an answer without tools: text or, where the agent has an output type, a value of it."""
    return await carry_out(_SPEAKING, session, deps.with_tools(NoTools), name, prompt)


async def conclude(session: AgentSession, deps: Dependencies, name: str, prompt: str) -> None:
    """Ask the model for the answer of the session; if there is none, the session gets the reason."""
    adopt_result(session, await answer_without_tools(session, deps, name, prompt))


def adopt_result(session: AgentSession, part: AgentSession) -> None:
    """Make the output of a part, or the reason why it has none, the session's own."""
    if is_something(part.output) or not is_something(session.output):
        session.output = part.output
    session.interrupted, session.interruption_reason = part.interrupted, part.interruption_reason


def add_question(session: AgentSession, prompt: str) -> None:
    """Add the question to the session's messages, so that every model call has it."""
    session.messages[:] = asked(session, prompt)


def branch_session(session: AgentSession) -> AgentSession:
    """Return a copy of a session for a branch: what a branch changes besides its result is lost in replay."""
    return AgentSession(session.id, session.instructions, list(session.messages))


def interrupt(session: AgentSession, reason: StopReason) -> None:
    """End the session without the answer, for a reason; its output so far is unchanged."""
    session.interrupted, session.interruption_reason = True, reason.value


@value
class Candidate:
    """An answer with its score from 0 to 1, and the reason why it stopped short, if it did."""

    output: object
    score: float
    interruption: str | None = None


class Candidates:
    """The answers of one session, which always has the best one as its output.

    An answer that is empty or stopped short never replaces a whole one; a whole one needs a better score.
    """

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._tried: list[Candidate] = []

    @property
    def best(self) -> Candidate:
        """The one with the highest score, of equals the first; whole answers before those that stopped short."""
        return max(self._tried, key=_quality)

    def __bool__(self) -> bool:
        """Return whether there is a whole answer."""
        return any(_quality(each) >= _WHOLE for each in self._tried)

    def add(self, output: object, score: float, interruption: str | None = None) -> None:
        """Add an answer with its score."""
        self._tried.append(Candidate(output, score, interruption))
        session, best = self._session, self.best
        if is_something(best.output):
            session.output = best.output
        session.interrupted, session.interruption_reason = best.interruption is not None, best.interruption
        shown: list[JsonValue] = [
            {"output": to_json_value(each.output), "score": each.score} for each in self._tried
        ]
        session.metadata["candidates"] = shown


ROUNDS_OVER = "rounds_over"
"""The reason for which a loop without rounds left ends with the best candidate."""
_WHOLE = (True, True, 0.0)


def _quality(candidate: Candidate) -> tuple[bool, bool, float]:
    return is_something(candidate.output), candidate.interruption is None, candidate.score


def settle_for_best(session: AgentSession, why: str) -> None:
    """Record why there is no better answer than the best candidate, which the session has."""
    session.metadata["settled"] = why


def take_output(session: AgentSession, deps: Dependencies, output: JsonValue) -> None:
    """Make a worker's output the session's; raise `AgentStructuredOutputError` if it has the wrong type."""
    session.output = output if deps.output is None else deps.output.decode(output)


def check_workers(
    owner: object, field: str, workers: Mapping[str, WorkerRef], **others: WorkerRef | None
) -> None:
    """Raise `AgentDefinitionError` if there are no workers or one cannot be asked; any of the others may be None."""
    reject_empty(owner, **{field: workers})
    for name, worker in workers.items():
        reject_blank(owner, **{field: name})
        check_worker(owner, f"{field}[{name!r}]", worker)
    for name, other in others.items():
        check_worker(owner, name, other)


def check_worker(owner: object, field: str, worker: WorkerRef | None) -> None:
    """Raise `AgentDefinitionError` if a worker, unless None, is no agent or a spec that needs a run of its own."""
    what = f"{type(owner).__name__}.{field}"
    if isinstance(worker, AgentExecutionSpec):
        _check_spec(what, worker)
    elif isinstance(worker, str):
        reject_blank(owner, **{field: worker})
    elif worker is not None and AgentDefinition.get_or_none(worker) is None:
        raise AgentDefinitionError(
            f"{what} is {worker!r}, which is no agent. Give a class marked @Agent, the name of an agent, or a spec."
        )


def declared_agents(workers: Mapping[str, WorkerRef], **others: WorkerRef | None) -> Mapping[str, AgentRef]:
    """Return the agents among workers, for `declared_workers()`; of a spec, those that its loop hands work to."""
    found: dict[str, AgentRef] = {}
    given = {name: other for name, other in others.items() if other is not None}
    for name, worker in {**workers, **given}.items():
        if isinstance(worker, AgentExecutionSpec):
            below = workers_of(find_architecture(worker.architecture))
            found |= {f"{name}/{inner}": agent for inner, agent in below.items()}
        else:
            found[name] = worker
    return found


def purpose_of(worker: WorkerRef) -> str:
    """Return the declared purpose of a worker, or an empty text."""
    if isinstance(worker, AgentExecutionSpec):
        return worker.objective or _first_line(worker.instructions)
    definition = AgentDefinition.get_or_none(worker) if isinstance(worker, type) else None
    if definition is None:
        return ""
    return definition.spec.objective or _first_line(definition.instructions)


async def ask_worker(
    worker: WorkerRef,
    name: str,
    task: str,
    session: AgentSession,
    deps: Dependencies,
    *,
    exits: Sequence[ModelToolSpec] = (),
) -> JsonValue:
    """Let a worker do a task and return its output: where its model takes one of the exits, that exit.

    Raises:
        StoppedShortError: it stopped short; the message says how far it got.
        ToolError: it failed.
        AgentToolDispatchError: the run is nested too deeply.
    """
    if not isinstance(worker, AgentExecutionSpec):
        return await deps.runtime.spawn_child(name, worker, task, exits=exits)
    output = None if worker.output_type is None else StructuredOutputSpec.from_type(worker.output_type)
    alone = AgentSession(session.id, worker.instructions or worker.objective or session.instructions)
    base = find_architecture(worker.architecture)
    offered = with_exits(deps.with_output(output), base, exits)
    done = await carry_out(base, alone, offered, name, task)
    if done.interrupted:
        reason = done.interruption_reason or "agent_interrupted"
        raise StoppedShortError(
            f"{name!r} stopped short ({reason}) at: {as_text(done.output)!r}", reason=reason
        )
    return to_json_value(done.output)


def _check_spec(what: str, spec: AgentExecutionSpec) -> None:
    plain = AgentExecutionSpec()
    fields = sorted(AgentExecutionSpec.__dataclass_fields__)
    more = [each for each in fields if each not in _OF_A_SPEC and getattr(spec, each) != getattr(plain, each)]
    if more:
        raise AgentDefinitionError(
            f"{what} is a spec with {', '.join(more)}, which only a run of its own can keep. "
            "Make it a class marked @Agent, or leave that out."
        )


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
