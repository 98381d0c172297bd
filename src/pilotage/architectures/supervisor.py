"""Supervisor: one loop that delegates to workers by control calls, several at once, and reads their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import ClassVar

from pilotage.agent.control_tools import ControlTools, control_call
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import (
    AgentRef,
    AgentSession,
    Architecture,
    BranchFailure,
    Dependencies,
    FailurePolicy,
    ToolCallOutcome,
    workers_of,
)
from pilotage.architectures.deciding import outside
from pilotage.architectures.parts import WorkerRef, ask_worker, check_workers, declared_agents, purpose_of
from pilotage.architectures.prompts import PromptGuide, PromptGuides, check_prompts, fill, listed
from pilotage.architectures.react import React
from pilotage.architectures.turn import Events, close_stream
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue
from pilotage.values import shared, value

DELEGATE = "delegate"
FORWARD = "forward"


@value
class Delegation:
    """A task for a worker. The worker gets nothing else, so the instructions must be complete."""

    worker: str
    instructions: str


@value
class Forwarding:
    """The last output of this worker is the answer."""

    worker: str


@value
class Supervisor:
    """Orchestrate workers.

    workers: the workers, by name.
    base: the loop of the supervisor itself, with the agent's own tools beside the control calls. With `React` it may
        also forward the output of a worker as the answer.
    max_parallel: how many workers are busy at once; None for all that were asked in one reply.
    delegate_prompt: the description of `delegate` as a tool.
    forward_prompt: the description of `forward` as a tool.
    """

    workers: Mapping[str, WorkerRef]
    base: Architecture = field(default_factory=shared(React))
    max_parallel: int | None = None
    delegate_prompt: str = (
        "Give a worker something to do. Workers called in one reply work side by side.\n{workers}"
    )
    forward_prompt: str = "End with the last answer of a worker, word for word."

    name = "supervisor"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "delegate_prompt": PromptGuide(("workers",), "a call with a `Delegation`"),
        "forward_prompt": PromptGuide((), "a call with a `Forwarding`"),
    }

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        check_workers(self, "workers", self.workers)
        reject_not_positive(self, max_parallel=self.max_parallel)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Let the base work, and answer its control calls."""
        # Another loop may have branches; what a branch changes in the desk is lost in replay.
        may_forward = isinstance(self.base, React) and deps.output is None
        desk = _Desk(self, session, deps, may_forward=may_forward)
        supervised = deps.with_tools(partial(ControlTools, controls=desk.controls, answer=desk.answer))
        events = self.base.run(session, supervised, prompt)
        try:
            async for event in events:
                yield event
        finally:
            await close_stream(events)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the workers, and those of the base."""
        return {**workers_of(self.base), **declared_agents(self.workers)}


class _Desk:
    """Carries out the control calls of a reply with the workers."""

    def __init__(
        self, what: Supervisor, session: AgentSession, deps: Dependencies, *, may_forward: bool
    ) -> None:
        self._what = what
        self._workers = what.workers
        self._limit = what.max_parallel
        self._session = session
        self._deps = deps
        self._may_forward = may_forward
        self._outputs: dict[str, JsonValue] = {}
        self._log: list[JsonValue] = []
        self._choices = {"worker": list(what.workers)}

    @property
    def controls(self) -> list[ModelToolSpec]:
        known = listed({name: purpose_of(worker) for name, worker in self._workers.items()})
        delegate = fill(self._what.delegate_prompt, workers=known)
        forward = fill(self._what.forward_prompt)
        offered = [control_call(DELEGATE, Delegation, delegate, **self._choices)]
        return (
            [*offered, control_call(FORWARD, Forwarding, forward, **self._choices)]
            if self._may_forward
            else offered
        )

    async def answer(self, calls: Sequence[ModelToolCall]) -> list[ToolCallOutcome]:
        """Return the outcomes: delegations first, in parallel; a forwarded output may come from one of them."""
        read = [(call, self._read(call)) for call in calls]
        tasks = [(call, task) for call, task in read if isinstance(task, Delegation)]
        for _, task in tasks:
            await self._report("supervisor.delegated", worker=task.worker)
        ended = await self._worked([task for _, task in tasks]) if tasks else ()
        done = [await self._outcome(*each, end) for each, end in zip(tasks, ended, strict=True)]
        worked = iter(done)
        return [
            next(worked) if isinstance(task, Delegation) else self._other(call, task) for call, task in read
        ]

    async def _worked(self, tasks: Sequence[Delegation]) -> Sequence[JsonValue | BranchFailure]:
        branches = [partial(self._work, task) for task in tasks]
        return await self._deps.runtime.gather(
            DELEGATE, branches, limit=self._limit, policy=FailurePolicy.COLLECT
        )

    async def _work(self, task: Delegation) -> JsonValue:
        worker = self._workers[task.worker]
        return await ask_worker(worker, task.worker, task.instructions, self._session, self._deps)

    async def _outcome(
        self, call: ModelToolCall, task: Delegation, end: JsonValue | BranchFailure
    ) -> ToolCallOutcome:
        has_failed = isinstance(end, BranchFailure)
        await self._report("supervisor.answered", worker=task.worker, failed=has_failed)
        if self._may_forward:
            self._log.append({"worker": task.worker, "task": task.instructions, "failed": has_failed})
            self._session.metadata["delegations"] = list(self._log)
        if isinstance(end, BranchFailure):
            self._outputs.pop(task.worker, None)
            return ToolCallOutcome(call, error=f"{task.worker!r} failed: {end.error}")
        self._outputs[task.worker] = end
        return ToolCallOutcome(call, end)

    def _other(self, call: ModelToolCall, task: Forwarding | str) -> ToolCallOutcome:
        if isinstance(task, Forwarding) and task.worker in self._outputs:
            return ToolCallOutcome(call, self._outputs[task.worker], ends=True)
        if isinstance(task, Forwarding):
            words = f"{task.worker!r} has no output that could be forwarded. Delegate to it first."
            return ToolCallOutcome(call, error=words, is_wrong_control=True)
        return ToolCallOutcome(call, error=task, is_wrong_control=True)

    def _read(self, call: ModelToolCall) -> Delegation | Forwarding | str:
        """Return the decoded control call, or the problems with it."""
        kind: object = Delegation if call.name == DELEGATE else Forwarding
        try:
            task = StructuredOutputSpec.from_type(kind).decode(call.arguments)
        except AgentStructuredOutputError as error:
            return " ".join(error.problems)
        problems = outside(task, self._choices)
        if isinstance(task, Delegation) and not task.instructions.strip():
            problems.append("instructions: they are blank.")
        return " ".join(problems) or (task if isinstance(task, Delegation | Forwarding) else "")

    async def _report(self, step: str, **facts: JsonValue) -> None:
        await self._deps.tell(self._deps.progress(step, **facts))
