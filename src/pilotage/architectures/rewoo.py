"""ReWOO: the whole plan of tool calls first, with references to results that are not there yet; then the answer.

The planner sees the schemas of the tools and never a result, so nothing that a result says can change the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pilotage.agent.events import (
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import ModelToolSpec, hidden_arguments
from pilotage.agent.model_stream import call_id_at
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies, ToolCallOutcome
from pilotage.architectures.deciding import decide
from pilotage.architectures.graph import graph_problems, levels
from pilotage.architectures.parts import add_question, conclude
from pilotage.architectures.prompts import PromptGuide, PromptGuides, as_text, check_prompts, fill, listed
from pilotage.architectures.turn import Events
from pilotage.checks import reject_not_positive
from pilotage.jsonvalue import JsonValue, canonical_json, list_or_empty, object_or_empty, to_json_value
from pilotage.values import value


@value
class Argument:
    """An argument by name: a value, or the result of another call, or one member of that."""

    name: str
    value: JsonValue = None
    result_of: str | None = None
    member: str | None = None


@value
class PlannedCall:
    """A call that is to be made."""

    id: str
    tool: str
    arguments: Sequence[Argument] = ()

    @property
    def needs(self) -> list[str]:
        """The calls whose results it needs."""
        return [argument.result_of for argument in self.arguments if argument.result_of is not None]


@value
class CallPlan:
    """All calls that are needed."""

    calls: Sequence[PlannedCall]

    @property
    def needs(self) -> dict[str, Sequence[str]]:
        """The calls by id, each with the ids of the calls whose results it needs."""
        return {call.id: call.needs for call in self.calls}


def call_plan_problems(plan: CallPlan, tools: Sequence[ModelToolSpec], most: int) -> list[str]:
    """Return the problems of a plan, each as a sentence for the model that made it."""
    by_name = {tool.name: tool for tool in tools}
    if not by_name and not plan.calls:
        return []
    problems = graph_problems([(call.id, call.needs) for call in plan.calls], most=most)
    for call in plan.calls:
        tool = by_name.get(call.tool)
        if tool is None:
            offered = ", ".join(map(repr, by_name)) or "none"
            problems.append(f"{call.id!r} calls {call.tool!r}, which is no tool. On offer are: {offered}.")
        else:
            problems += _argument_problems(call, tool)
    return problems


def resolved(call: PlannedCall, results: Mapping[str, JsonValue]) -> dict[str, JsonValue] | str:
    """Return the arguments of a call, given the results it needs; or the sentence that says why there are none."""
    arguments: dict[str, JsonValue] = {}
    for each in call.arguments:
        given = each.value if each.result_of is None else results[each.result_of]
        if each.member is not None:
            if not isinstance(given, Mapping) or each.member not in given:
                return f"not called: the result of {each.result_of!r} has no member {each.member!r}."
            given = given[each.member]
        arguments[each.name] = given
    return arguments


def _argument_problems(call: PlannedCall, tool: ModelToolSpec) -> list[str]:
    known = object_or_empty(tool.parameters.schema.get("properties"))
    required = list_or_empty(tool.parameters.schema.get("required"))
    names = [argument.name for argument in call.arguments]
    problems = [
        f"{call.id!r}: {tool.name!r} takes no argument {name!r}." for name in names if name not in known
    ]
    problems += [f"{call.id!r}: {tool.name!r} needs {name!r}." for name in required if name not in names]
    twins = sorted({name for name in names if names.count(name) > 1})
    problems += [f"{call.id!r}: the argument {name!r} is given twice." for name in twins]
    both = [each.name for each in call.arguments if each.result_of is not None and each.value is not None]
    problems += [f"{call.id!r}: {name!r} has a value and a result_of. Give one." for name in both]
    alone = [each.name for each in call.arguments if each.member is not None and each.result_of is None]
    return problems + [f"{call.id!r}: {name!r} has a member without a result_of." for name in alone]


@value
class Rewoo:
    """Reason without observation.

    max_steps: how many calls a plan may have.
    max_parallel: how many calls that only read run at once; None for all that can.
    planner_prompt: asks for all calls that are needed.
    solver_prompt: asks for the answer, when they are made.
    """

    max_steps: int = 10
    max_parallel: int | None = None
    planner_prompt: str = (
        "Plan all tool calls that are needed to answer, before any of them is made. Where an argument is the "
        "result of another call, leave its value out and name that call in result_of; member picks one member of "
        "it. At most {max_steps} calls. The tools:\n{tools}"
    )
    solver_prompt: str = "Answer the question from what the tools gave."

    name = "rewoo"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {
        "planner_prompt": PromptGuide(("max_steps", "tools"), "`CallPlan`"),
        "solver_prompt": PromptGuide((), "the answer"),
    }

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        reject_not_positive(self, max_steps=self.max_steps, max_parallel=self.max_parallel)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Plan all calls, make them level by level, and let the model answer from their results.

        Raises:
            AgentStructuredOutputError: the model makes no plan that can be carried out, asked twice.
        """
        add_question(session, prompt)
        message_id = deps.next_message_id()
        plan = await self._planned(session, deps)
        session.metadata["plan"] = to_json_value(plan)
        yield deps.progress("rewoo.planned", calls=[call.id for call in plan.calls])
        outcomes: dict[str, ToolCallOutcome] = {}
        for level in levels(plan.needs):
            for outcome_id, outcome in (await self._made(plan, level, outcomes, deps, message_id)).items():
                outcomes[outcome_id] = outcome
                yield _result(outcome, deps, message_id)
            session.output = _shown(outcomes)
            yield deps.progress("rewoo.level_done", calls=level)
        session.messages.append(
            ModelMessage.evidence(f"What the tools gave:\n{_shown(outcomes)}", source="rewoo")
        )
        await conclude(session, deps, "solver", fill(self.solver_prompt))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return no workers: the agent works alone."""
        return {}

    async def _planned(self, session: AgentSession, deps: Dependencies) -> CallPlan:
        tools = deps.tools.calling.tools if deps.tools.calling else ()

        def problems(plan: CallPlan) -> list[str]:
            return call_plan_problems(plan, tools, self.max_steps)

        offered = listed(
            {
                tool.name: f"{tool.description or ''} {canonical_json(tool.parameters.schema)}"
                for tool in tools
            }
        )
        question = fill(self.planner_prompt, max_steps=self.max_steps, tools=offered or "none")
        return await decide(session, deps, CallPlan, question, check=problems)

    async def _made(
        self,
        plan: CallPlan,
        level: Sequence[str],
        before: Mapping[str, ToolCallOutcome],
        deps: Dependencies,
        message_id: str,
    ) -> dict[str, ToolCallOutcome]:
        """Make the calls of a level, except those whose arguments depend on a failed call."""
        planned = [(number, call) for number, call in enumerate(plan.calls, start=1) if call.id in level]
        outcomes: dict[str, ToolCallOutcome] = {}
        ready: list[tuple[str, ModelToolCall]] = []
        for number, each in planned:
            call_id = call_id_at(message_id, number)
            arguments = _arguments(each, before)
            if isinstance(arguments, str):
                outcomes[each.id] = ToolCallOutcome(ModelToolCall(each.tool, {}, call_id), error=arguments)
            else:
                ready.append((each.id, ModelToolCall(each.tool, arguments, call_id)))
        for _, call in ready:
            await _report_call(call, deps, message_id)
        made = [call for _, call in ready]
        done = await deps.tools.call_all(made, limit=self.max_parallel) if ready else ()
        outcomes |= {each_id: outcome for (each_id, _), outcome in zip(ready, done, strict=True)}
        return outcomes


def _arguments(call: PlannedCall, before: Mapping[str, ToolCallOutcome]) -> dict[str, JsonValue] | str:
    """Return the arguments of a call by name, or why there are none."""
    failed = [need for need in call.needs if before[need].is_error]
    if failed:
        return f"not called: it needs the result of {failed[0]!r}, which failed."
    return resolved(call, {name: outcome.result for name, outcome in before.items()})


def _shown(outcomes: Mapping[str, ToolCallOutcome]) -> str:
    return listed(
        {
            name: f"failed: {outcome.error}" if outcome.is_error else as_text(outcome.result)
            for name, outcome in outcomes.items()
        }
    )


async def _report_call(call: ModelToolCall, deps: Dependencies, message_id: str) -> None:
    by, call_id = deps.attribution, call.call_id or call.name
    shown = call.guarded(hidden_arguments(deps.tools.calling).get(call.name, ()))
    await deps.tell(ToolCallStartEvent(by, call_id, call.name, message_id))
    await deps.tell(ToolCallArgsDeltaEvent(by, call_id, canonical_json(shown.arguments)))
    await deps.tell(ToolCallEndEvent(by, call_id))


def _result(outcome: ToolCallOutcome, deps: Dependencies, message_id: str) -> ToolCallResultEvent:
    call, by = outcome.call, deps.attribution
    call_id = call.call_id or call.name
    if outcome.error is None:
        return ToolCallResultEvent(by, call_id, call.name, message_id, outcome.result)
    failure: JsonValue = {"error": outcome.error}
    return ToolCallResultEvent(
        attribution=by,
        call_id=call_id,
        tool_name=call.name,
        message_id=message_id,
        result=failure,
        metadata={"is_error": True},
    )
