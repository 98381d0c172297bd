"""A request to a model: messages, context, tools, the shape of the answer, sampling.

Context packs are placed by their role and rendered with delimiters and provenance, before the question, and never as
a user's words. `ToolCallingSpec` also leads from a call of the model to the function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from inspect import isawaitable, ismethod, signature
from typing import TypeAlias

from pilotage.agent.context import (
    ContextDigest,
    ContextManifest,
    ContextPack,
    ContextPackRole,
    render_context_pack,
)
from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall
from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_agent_tool_invocation
from pilotage.agent.tools.declare import active_tool_calls, get_agent_tool_definition, tool_label
from pilotage.agent.tools.schema import tool_interface
from pilotage.checks import reject_blank, reject_empty, reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, AgentToolDispatchError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy
from pilotage.schema.reader import ShapeReader
from pilotage.schema.records import NoDefault
from pilotage.schema.rejections import spelling
from pilotage.schema.shape import Property, TypeShape, closed_object
from pilotage.schema.validation import MisfitsError, Validate, compile_validator, core_of_json
from pilotage.values import LEFT_OUT_BY_DEFAULT, shared, value

# pydantic-core validates objects; other types travel as the only member of one.
_MEMBER = "answer"


@value
class JsonSchemaConstraint:
    """A JSON schema; `strict` asks the server to enforce it while the model writes."""

    schema: JsonObject
    strict: bool = True


@value
class StructuredOutputSpec:
    """The shape of an answer that a request asks for. `output_type` is what `decode` makes of it."""

    constraint: JsonSchemaConstraint
    output_type_name: str | None = None
    output_type: object = None

    @classmethod
    def from_type(cls, output_type: object, *, strict: bool = True) -> StructuredOutputSpec:
        """Return the spec of a type: a dataclass, a pydantic model, or anything a tool may take.

        Raises:
            AgentDefinitionError: the type has no JSON schema; the message says what to write instead.
        """
        spec, _ = _derived(output_type)
        if strict is spec.constraint.strict:
            return spec
        return replace(spec, constraint=replace(spec.constraint, strict=strict))

    def decode(self, value: JsonValue) -> object:
        """Return the answer as a value of the type; without a type the JSON as it is, if it fits the schema.

        Raises:
            AgentStructuredOutputError: the answer does not fit; `problems` has a sentence for each reason.
        """
        if self.output_type is None:
            validate = _checked(canonical_json(self.constraint.schema))
        else:
            _, validate = _derived(self.output_type)
        try:
            decoded = validate({_MEMBER: value})[_MEMBER]
        except MisfitsError as error:
            problems = [
                f"{m.path.removeprefix(_MEMBER).lstrip('.') or 'the answer'}: {m.words}."
                for m in error.misfits
            ]
        else:
            return value if self.output_type is None else decoded
        wanted = f"is no {self.output_type_name}" if self.output_type_name else "does not fit the schema"
        raise AgentStructuredOutputError(f"the answer {wanted}: {' '.join(problems)}", problems=problems)


@lru_cache(maxsize=256)
def _checked(schema: str) -> Validate:
    """Return the check of answers by a JSON schema alone."""
    member = TypeShape({}, core_of_json(json.loads(schema)))
    return compile_validator(closed_object([Property(_MEMBER, member, is_required=True)]).core, strict=True)


@lru_cache(maxsize=256)
def _derived(output_type: object) -> tuple[StructuredOutputSpec, Validate]:
    name, reader = spelling(output_type), ShapeReader(for_input=True)
    shape = reader.read(output_type, f"output type {name}")
    if reader.problems:
        raise AgentDefinitionError("\n".join(reader.problems))
    schema = {"title": name, **reader.definitions.with_json(shape.json)}
    core = closed_object([Property(_MEMBER, shape, is_required=True)]).core
    validate = compile_validator(reader.definitions.with_core(core))
    return StructuredOutputSpec(JsonSchemaConstraint(schema), name, output_type), validate


ToolFunction = Callable[..., object]
HiddenArguments: TypeAlias = Mapping[str, Sequence[SensitiveFieldDescriptor]]
_NOTHING_HIDDEN: HiddenArguments = {}


class ModelToolChoice(StrEnum):
    """Whether the model may, must not or must call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@value
class ModelToolSpec:
    """A tool as the model sees it."""

    name: str
    parameters: JsonSchemaConstraint
    description: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, description=self.description)


def _no_functions() -> Mapping[str, ToolFunction]:
    return {}


@value(slots=False)
class ToolCallingSpec:
    """The tools on offer and the choice the model has; `tool_name` forces one tool.

    `parallel` says whether one reply may have several calls; None leaves it to the model's capability.
    """

    tools: Sequence[ModelToolSpec]
    choice: ModelToolChoice = ModelToolChoice.AUTO
    tool_name: str | None = None
    functions: Mapping[str, ToolFunction] = field(default_factory=_no_functions, repr=False, compare=False)
    parallel: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        names = [tool.name for tool in self.tools]
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise AgentDefinitionError(
                f"ToolCallingSpec.tools has several tools called {', '.join(map(repr, twins))}. "
                "Name them apart: @agent_tool(schema_name=...)."
            )
        if self.tool_name is not None and self.tool_name not in names:
            offered = ", ".join(map(repr, names)) or "none"
            raise AgentDefinitionError(
                f"ToolCallingSpec.tool_name is {self.tool_name!r}, which is none of its tools ({offered})."
            )

    @classmethod
    def from_tools(
        cls,
        tools: Iterable[ToolFunction],
        *,
        choice: ModelToolChoice = ModelToolChoice.AUTO,
        tool_name: str | None = None,
        strict: bool = True,
    ) -> ToolCallingSpec:
        """Return the spec of functions and bound methods marked with `@agent_tool`: `from_tools([self.docs.search])`.

        Raises:
            AgentDefinitionError: one of them is no tool, or a method without its instance.
        """
        functions = list(tools)
        specs = [_spec_of(function, strict) for function in functions]
        by_name = {spec.name: function for spec, function in zip(specs, functions, strict=True)}
        return cls(specs, choice, tool_name, by_name)

    @cached_property
    def hidden(self) -> HiddenArguments:
        """By tool, which of its arguments only the tool itself may see; tools without any are left out."""
        found = {name: tool_interface(_plain(each)) for name, each in self.functions.items()}
        return {
            name: tool.input_sensitive_fields for name, tool in found.items() if tool.input_sensitive_fields
        }

    async def invoke(self, call: ModelToolCall) -> object:
        """Call the tool a model asks for. Inside a run the call is an action of the run.

        Raises:
            AgentToolDispatchError: no function of that name is on offer, or it needs what only a run can fill.
            AgentToolBindingError: the arguments do not fit; `problems` has a sentence for each reason.
        """
        function = self.functions.get(call.name)
        if function is None:
            offered = ", ".join(map(repr, self.functions)) or "none"
            raise AgentToolDispatchError(f"there is no tool {call.name!r} on offer ({offered}).")
        bound = bind_agent_tool_invocation(function, call.arguments)
        calls = active_tool_calls.get()
        if calls is not None:
            given = {name: bound.arguments[name] for name in bound.asked}
            return await calls.invoke(function, given, call.call_id)
        _require_fillable(call.name, bound)
        result = function(**bound.arguments)
        return await result if isawaitable(result) else result


def hidden_arguments(calling: ToolCallingSpec | None) -> HiddenArguments:
    """By tool, which of its arguments only the tool itself may see; tools without any are left out."""
    return calling.hidden if calling is not None else _NOTHING_HIDDEN


def _plain(tool: ToolFunction) -> ToolFunction:
    plain: ToolFunction = getattr(tool, "__func__", tool)
    return plain


def _spec_of(tool: ToolFunction, strict: bool) -> ModelToolSpec:
    function = _plain(tool)
    definition = get_agent_tool_definition(function)
    if definition is None:
        raise AgentDefinitionError(f"{tool_label(tool)} is no tool. Mark it with @agent_tool.")
    if not ismethod(tool) and next(iter(signature(function).parameters), None) == "self":
        raise AgentDefinitionError(
            f"{tool_label(tool)} is a method without its instance. Hand over the method of an instance: "
            f"self.tools.{definition.name}."
        )
    interface = tool_interface(function)
    schema: JsonObject = {"title": f"{definition.schema_name}.input", **interface.input_schema}
    constraint = JsonSchemaConstraint(schema, strict and interface.may_be_strict)
    return ModelToolSpec(definition.schema_name, constraint, definition.description)


def _require_fillable(name: str, bound: AgentToolBoundInvocation) -> None:
    """Secrets and the runtime context are filled by a run; outside one, only a default can take their place."""
    missing = [parameter.name for parameter in bound.injected if isinstance(parameter.default, NoDefault)]
    if missing:
        raise AgentToolDispatchError(
            f"{name!r} needs {', '.join(missing)}, which a run fills, and there is no run here. "
            "Call the method itself and pass them."
        )


_INSTRUCTING = frozenset({ContextPackRole.SYSTEM, ContextPackRole.INSTRUCTION})


@value
class SamplingOptions:
    """The sampling of tokens; None leaves a setting to the server. `stop` are texts at which the reply ends."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = field(default=(), metadata=LEFT_OUT_BY_DEFAULT)
    seed: int | None = field(default=None, metadata=LEFT_OUT_BY_DEFAULT)

    def __post_init__(self) -> None:
        reject_not_positive(self, top_p=self.top_p, max_tokens=self.max_tokens)
        if self.stop:
            object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))
            if not all(self.stop):
                raise AgentDefinitionError(
                    "SamplingOptions.stop has an empty text, at which every reply would end."
                )
        if self.temperature is not None:
            reject_negative(self, temperature=self.temperature)


@value
class ReasoningOptions:
    """The reasoning of the model before its reply; None leaves a setting to the server.

    `effort` is a word of the server, such as `low` or `high`; `budget_tokens` the most tokens of reasoning. Servers
    have one or the other. `is_shown` asks for the reasoning, or a summary of it, beside the reply.
    """

    effort: str | None = None
    budget_tokens: int | None = None
    is_shown: bool | None = None

    def __post_init__(self) -> None:
        reject_blank(self, effort=self.effort)
        reject_not_positive(self, budget_tokens=self.budget_tokens)


@value
class CacheOptions:
    """Hints for the cache of prompts; servers without one, or with one that needs no hints, ignore them.

    `key` groups requests that begin alike; `is_long` asks for the longer of two times that a provider keeps a prefix.
    """

    key: str | None = None
    is_long: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, key=self.key)


@value
class StreamingOptions:
    """The parts of a stream beside the reply.

    `restarts` says that the reader can take back what it got: in a durable run, after a failure that may pass, it gets
    an event that `is_restart`, and then the reply anew. Without it the run pauses, and its next attempt asks again.
    """

    include_usage: bool = True
    include_progress: bool = True
    restarts: bool = False


@value
class ModelSelection:
    """Which of several models a run should use."""

    model_ref: str

    def __post_init__(self) -> None:
        reject_blank(self, model_ref=self.model_ref)


@value
class ModelRequest:
    """One request. `tools=` and `output=` are the short names of `tool_calling=` and `structured_output=`."""

    messages: Sequence[ModelMessage]
    context: Sequence[ContextPack] = ()
    context_manifest: ContextManifest | None = None
    context_digest: ContextDigest | None = None
    structured_output: StructuredOutputSpec | None = None
    tool_calling: ToolCallingSpec | None = None
    sampling: SamplingOptions = field(default_factory=shared(SamplingOptions))
    streaming: StreamingOptions = field(default_factory=shared(StreamingOptions))
    metadata: JsonObject = field(default_factory=empty_object)
    reasoning: ReasoningOptions | None = None
    cache: CacheOptions | None = None
    tools: InitVar[ToolCallingSpec | None] = None
    output: InitVar[StructuredOutputSpec | None] = None

    def __post_init__(self, tools: ToolCallingSpec | None, output: StructuredOutputSpec | None) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "context", tuple(self.context))
        reject_empty(self, messages=self.messages)
        self._take("tools", tools, "tool_calling", self.tool_calling)
        self._take("output", output, "structured_output", self.structured_output)

    def missed_choice(self, calls: Sequence[ModelToolCall]) -> str | None:
        """Return the choice that a reply with these calls did not keep: a tool's name, or `required`; else None."""
        calling = self.tool_calling
        if calling is None:
            return None
        if calling.tool_name is not None:
            return None if any(call.name == calling.tool_name for call in calls) else calling.tool_name
        return calling.choice.value if calling.choice is ModelToolChoice.REQUIRED and not calls else None

    def _take(self, short: str, given: object, name: str, present: object) -> None:
        if given is None:
            return
        if present is not None:
            raise AgentDefinitionError(
                f"ModelRequest got both {short}= and {name}=. They mean the same: give one."
            )
        object.__setattr__(self, name, given)

    def assemble_messages(self, policy: ContextExposurePolicy | None = None) -> tuple[ModelMessage, ...]:
        """Return the messages as the model gets them, with each context pack in its place.

        Packs that instruct follow the leading system messages; all others stand as evidence before the
        last user message, or at the end where there is none. What the manifest calls volatile follows the results
        of a turn that is under way: the requests of a turn begin alike.
        """
        if not self.context:
            return tuple(self.messages)
        policy = policy or ContextExposurePolicy()
        instructing = [_as_message(p, ModelMessageRole.SYSTEM, policy) for p in self.context if _instructs(p)]
        manifest = self.context_manifest
        volatile = manifest.volatile_packs if manifest is not None else frozenset[str]()
        showing, last = list[ModelMessage](), list[ModelMessage]()
        for pack in self.context:
            if not _instructs(pack):
                shown = _as_message(pack, ModelMessageRole.EVIDENCE, policy)
                (last if pack.id in volatile else showing).append(shown)
        lead, question = _after_leading_system(self.messages), _last_user(self.messages)
        messages = self.messages
        if question == len(messages) - 1:
            showing, last = showing + last, []
        placed = (*messages[:lead], *instructing, *messages[lead:question], *showing, *messages[question:])
        return (*placed, *last)


def _instructs(pack: ContextPack) -> bool:
    return pack.role in _INSTRUCTING


def _as_message(pack: ContextPack, role: ModelMessageRole, policy: ContextExposurePolicy) -> ModelMessage:
    return ModelMessage(role, render_context_pack(pack, policy), pack.message_metadata(policy))


def _after_leading_system(messages: Sequence[ModelMessage]) -> int:
    others = (i for i, message in enumerate(messages) if message.role is not ModelMessageRole.SYSTEM)
    return next(others, len(messages))


def _last_user(messages: Sequence[ModelMessage]) -> int:
    users = (i for i, m in reversed(list(enumerate(messages))) if m.role is ModelMessageRole.USER)
    return next(users, len(messages))
