"""Plans of tool calls whose arguments may be results of other calls: their checks, and their arguments. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.agent.model_request import ModelToolSpec
from pilotage.architectures.graph import graph_problems
from pilotage.jsonvalue import JsonValue, list_or_empty, object_or_empty
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
        """By call, whose results it needs."""
        return {call.id: call.needs for call in self.calls}


def call_plan_problems(plan: CallPlan, tools: Sequence[ModelToolSpec], most: int) -> list[str]:
    """What is wrong with a plan, each as a sentence for the model that made it."""
    by_name = {tool.name: tool for tool in tools}
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
    """The arguments of a call, given the results it needs; or the sentence that says why there are none."""
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
