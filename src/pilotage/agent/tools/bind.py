"""Binds what a model sent to a tool's parameters: validated, coerced, every problem named.

A payload is *flat* (`{"query": "agent"}`) or *structured* (`{"args": ["agent"], "kwargs": {}}`). Values are
read as pydantic reads JSON, leniently where nothing is lost: `"5"` is an int, an ISO text is a date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pilotage.agent.tools.schema import ToolInterface, tool_interface
from pilotage.agent.tools.signature import InjectedParameter
from pilotage.errors import AgentToolBindingError
from pilotage.jsonvalue import JsonObject, is_list, is_object
from pilotage.schema.validation import Misfit, MisfitsError

# A model learns nothing from the hundredth sentence, and the payload decides how many there are.
_AT_MOST = 20


def sentences_about(misfits: Sequence[Misfit], interface: ToolInterface) -> list[str]:
    """Return what is wrong, a sentence for each misfit."""
    sentences = [_sentence(misfit, interface) for misfit in misfits[:_AT_MOST]]
    left_out = len(misfits) - len(sentences)
    return [*sentences, f"There are {left_out} more problems."] if left_out else sentences


def _sentence(misfit: Misfit, interface: ToolInterface) -> str:
    """Return what is wrong: the parameter and what is expected, never a sensitive value."""
    if misfit.rule == "extra_forbidden":
        return _about_unknown(misfit, interface)
    if misfit.rule == "missing":
        return f"{misfit.path!r} is missing{misfit.reading}."
    if _is_sensitive(misfit, interface) and not misfit.is_plain:
        return f"{misfit.path!r} does not fit its type{misfit.reading}."
    words = misfit.words.removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    words = words.replace("valid dictionary", "valid object").replace("valid tuple", "valid array")
    joint = " " if words.startswith("should ") else ": "
    return f"{misfit.path!r}{joint}{words}{misfit.reading}."


def _is_sensitive(misfit: Misfit, interface: ToolInterface) -> bool:
    """Return whether anything under the same parameter is sensitive; its words might quote a neighbour."""
    return any(found.path[0] == misfit.place[0] for found in interface.input_sensitive_fields)


def _about_unknown(misfit: Misfit, interface: ToolInterface) -> str:
    name = misfit.path
    if len(misfit.place) > 1:
        return f"{name!r} is not known{misfit.reading}. Leave it out."
    if any(each.name == name for each in interface.injected):
        return f"{name!r} is filled in by the application. Leave it out."
    known = [each.name for each in interface.parameters]
    from difflib import get_close_matches  # noqa: PLC0415 - only for the words of an error

    near = get_close_matches(name, known, n=1)
    if near:
        return f"{name!r} is not a parameter. Did you mean {near[0]!r}?"
    return f"{name!r} is not a parameter. It takes {', '.join(map(repr, known)) or 'none'}."


@dataclass(frozen=True, slots=True, repr=False)
class AgentToolBoundInvocation:
    """The arguments of one call.

    `args` and `kwargs` hold what the model filled, defaults included, without `self`. `injected` lists the parameters
    that the runtime fills: secrets and the runtime context. `arguments` has the same values by name,
    `asked` the payload by name as it came.
    """

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict[str, object])
    arguments: Mapping[str, object] = field(default_factory=dict[str, object], compare=False)
    asked: Mapping[str, object] = field(default_factory=dict[str, object], compare=False)
    injected: tuple[InjectedParameter, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        """Names only: the values may be personal or secret."""
        return f"AgentToolBoundInvocation({', '.join(self.arguments)})"


def bind_agent_tool_invocation(
    function: Callable[..., object], payload: Mapping[str, object]
) -> AgentToolBoundInvocation:
    """Bind a payload to any typed function, without calling it.

    Raises:
        AgentToolBindingError: the payload does not fit; `problems` has one sentence for each reason.
        AgentDefinitionError: the function cannot be a tool.
    """
    return bind_to(tool_interface(function), payload)


def bind_to(interface: ToolInterface, payload: Mapping[str, object]) -> AgentToolBoundInvocation:
    """Bind a payload to a tool whose interface is known."""
    asked = _by_name(interface, payload)
    arguments = validated_arguments(interface, asked)
    count = len(interface.positional)
    positional = tuple(islice(arguments.values(), count))
    by_keyword = dict(islice(arguments.items(), count, None))
    return AgentToolBoundInvocation(positional, by_keyword, arguments, asked, interface.injected)


def given_arguments(interface: ToolInterface, payload: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments of a payload by name, not validated.

    Raises:
        AgentToolBindingError: the payload does not fit; `problems` has one sentence for each reason.
    """
    # What a model sends is nearly always a plain object; validation makes another one of it.
    kind: object = type(payload)
    is_flat = kind is dict and "args" not in payload and "kwargs" not in payload
    return payload if is_flat else _by_name(interface, payload)


def validated_arguments(interface: ToolInterface, asked: Mapping[str, object]) -> dict[str, object]:
    """Return arguments by name, validated, defaults included.

    Raises:
        AgentToolBindingError: they do not fit; `problems` has one sentence for each reason.
    """
    try:
        return interface.validate(asked)
    except MisfitsError as error:
        problems = sentences_about(error.misfits, interface)
    raise _refusal(interface, problems)


_UNREADABLE = "no JSON object"
_LONGEST_UNREADABLE = 2_000


def unreadable_arguments(text: str) -> JsonObject:
    """Return the arguments of a call whose text is no JSON object. No tool accepts them; the name is no parameter's."""
    return {_UNREADABLE: text[:_LONGEST_UNREADABLE]}


def reject_unreadable(payload: Mapping[str, object], tool: str) -> None:
    """Refuse the arguments of a call that were no JSON object.

    Raises:
        AgentToolBindingError: they were none.
    """
    if _UNREADABLE in payload:
        problem = (
            f"The arguments are no JSON object: {payload[_UNREADABLE]!r}. Call it again with one JSON object."
        )
        raise AgentToolBindingError(f"{tool}: {problem}", problems=[problem])


def _by_name(interface: ToolInterface, payload: object) -> dict[str, object]:
    if is_object(payload):
        reject_unreadable(payload, interface.label)
    if not is_object(payload):
        raise _refusal(interface, [f"The arguments must be an object, not {type(payload).__name__}."])
    if not interface.reads_structured_payloads or not ("args" in payload or "kwargs" in payload):
        return dict(payload)
    return _unfold(interface, payload)


def _unfold(interface: ToolInterface, payload: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments by name from a structured payload."""
    args, kwargs = payload.get("args", ()), payload.get("kwargs", {})
    problems = [
        f"{name!r} cannot stand beside 'args' and 'kwargs'."
        for name in payload
        if name not in {"args", "kwargs"}
    ]
    values: Sequence[object] = ()
    named: Mapping[str, object] = {}
    if is_list(args):
        values = args
    else:
        problems.append("'args' must be an array.")
    if is_object(kwargs):
        named = kwargs
    else:
        problems.append("'kwargs' must be an object.")
    names = interface.positional
    if len(values) > len(names):
        problems.append(f"'args' has {len(values)} values for {len(names)} positional parameters.")
    positional = dict(zip(names, values, strict=False))
    problems += [
        f"{name!r} is given twice, in 'args' and in 'kwargs'." for name in named if name in positional
    ]
    if problems:
        raise _refusal(interface, problems)
    return {**positional, **named}


def _refusal(interface: ToolInterface, problems: Sequence[str]) -> AgentToolBindingError:
    return AgentToolBindingError(f"{interface.label}: {' '.join(problems)}", problems=problems)
