"""Binding of tool calls: their arguments, place and fingerprint, and the budget of their results for the model.

Truncation is pure, and the same in replay: the canonical text is truncated, and the record has the whole result.
Redact before truncating: a sensitive field cannot be found in a truncated text.

A fingerprint covers the arguments that were given. Calls that an earlier release recorded are found under the former
names of their tool, and under the digest of all arguments, defaults included, that rows of earlier versions have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, cast

from pilotage.agent.evidence import capture_result
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.catalog import AgentToolDescriptor, ToolBinding, discover_agent_tools
from pilotage.agent.tools.declare import original_function
from pilotage.agent.tools.declared_errors import NO_ERRORS, DeclaredErrors
from pilotage.agent.tools.described import BY_NAME, described, may_return_media
from pilotage.agent.tools.metadata import EvidenceCapture, Idempotency, ResultBudget
from pilotage.agent.tools.schema import ToolInterface
from pilotage.errors import AgentStructuredOutputError, AgentToolDispatchError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_bytes, to_json_value
from pilotage.runtime.door.arguments import ToolFunction, ToolParameters, given_by_name, part_given
from pilotage.runtime.door.run import Run
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.content_codec import CONTENT
from pilotage.runtime.journal.result_codec import UNTYPED_BRANCH, ResultCodec, codec_of
from pilotage.runtime.journal.scope import NameOf, StepScope, fingerprint_of, scope_for
from pilotage.safety.guard import ContextExposurePolicy, EvidenceExposurePolicy, guard_json_value
from pilotage.values import value


def within_budget(result: JsonValue, budget: ResultBudget) -> JsonValue:
    """Return the result if its JSON fits the budget, else an object with a notice and the beginning of the JSON.

    The object fits the budget too, except that the notice itself is never truncated.
    """
    if budget.max_bytes is None:
        return result
    text = canonical_json(result)
    size = len(to_bytes(text))
    if size <= budget.max_bytes:
        return result
    return _cut(result if isinstance(result, str) else text, size, budget.max_bytes)


def _cut(text: str, size: int, max_bytes: int) -> JsonObject:
    room = max_bytes - _size_of(_marked("", size, max_bytes))
    # Every character takes at least one byte, so a longer beginning cannot fit.
    lengths = range(1, max(min(room, len(text)), 0) + 1)
    fitting = bisect_right(lengths, room, key=lambda length: _size_of(text[:length]) - 2)
    return _marked(text[:fitting], size, max_bytes)


def _marked(beginning: str, size: int, max_bytes: int) -> JsonObject:
    return {
        "cut": True,
        "note": f"the result has {size} bytes, {max_bytes} are allowed; ask for less",
        "size_bytes": size,
        "beginning": beginning,
    }


def _size_of(value: JsonValue) -> int:
    return len(to_bytes(canonical_json(value)))


_AS_EVIDENCE = EvidenceExposurePolicy()


@value
class KnownTool:
    """A tool of a class. A call of an `is_plain` tool needs only its arguments: no secret, thread or timer."""

    descriptor: AgentToolDescriptor
    interface: ToolInterface
    function: Callable[..., Any]
    """The undecorated function of the tool."""
    codec: ResultCodec
    errors: DeclaredErrors
    parameters: ToolParameters
    name: str
    label: str
    former: tuple[tuple[str, str], ...]
    """Its former names, each with the label of step ids."""
    idempotency: Idempotency
    is_read_only: bool
    needs_approval: bool
    is_async: bool
    takes_owner: bool
    is_deferred: bool
    is_plain: bool
    is_shown_whole: bool
    """Whether a model gets its results as they are."""


@value
class Invocation:
    """A tool with its owner and arguments; `in_thread` if a model called it: then a sync tool runs in a thread.

    `arguments` are those of the execution, defaults included; `given` names the ones that the caller gave, None all.
    """

    tool: KnownTool
    owner: object
    arguments: dict[str, object]
    in_thread: bool = False
    given: Collection[str] | None = None


@lru_cache(maxsize=1024)
def known_tool(function: ToolFunction, holder: type) -> KnownTool:
    """Return the descriptor and interface of a class's tool.

    Raises:
        AgentToolDispatchError: the function belongs to no class.
    """
    descriptor = _descriptor_in(function, holder)
    name, metadata = descriptor.schema.name, descriptor.metadata
    fills = descriptor.takes_runtime_context or bool(descriptor.secrets)
    return KnownTool(
        descriptor=descriptor,
        interface=descriptor.interface,
        function=original_function(function),
        codec=_codec_for(function),
        errors=DeclaredErrors(metadata.errors) if metadata.errors else NO_ERRORS,
        parameters=ToolParameters(descriptor.interface),
        name=name,
        label=f"{words.TOOL}{name}",
        former=tuple((each, f"{words.TOOL}{each}") for each in metadata.formerly),
        idempotency=descriptor.effective_idempotency,
        is_read_only=metadata.is_read_only,
        needs_approval=metadata.requires_approval_candidate,
        is_async=is_async(function),
        takes_owner=descriptor.binding is not ToolBinding.NOTHING,
        is_deferred=metadata.deferred,
        is_plain=is_async(function) and not fills and metadata.timeout.seconds is None,
        is_shown_whole=not descriptor.schema.output_sensitive_fields
        and metadata.result_budget.max_bytes is None,
    )


def _codec_for(function: ToolFunction) -> ResultCodec:
    if described(function) is None:
        return codec_of(function)
    return CONTENT if may_return_media(function) else UNTYPED_BRANCH


def offered_tool(tool: ToolFunction) -> tuple[KnownTool, object]:
    """Return the tool of a function or bound method, and its owner.

    Raises:
        AgentToolDispatchError: the function belongs to no class.
    """
    function: ToolFunction = getattr(tool, "__func__", tool)
    owner: object = getattr(tool, "__self__", None)
    return known_tool(function, owner if isinstance(owner, type) else type(owner)), owner


def read_invocation(tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Invocation:
    """Return the tool of a call, its owner and the arguments by name, without `self` and injected parameters.

    Raises:
        AgentToolBindingError: the arguments do not fit their types.
        AgentToolDispatchError: the function belongs to no class.
    """
    given = given_by_name(tool, args, kwargs)
    owner = given.pop("self") if "self" in given else given.pop("cls", None)
    given.pop("runtime_context", None)
    if BY_NAME in given:
        given = cast("dict[str, object]", given[BY_NAME])
    known = known_tool(tool, owner if isinstance(owner, type) else type(owner))
    for secret in known.descriptor.secrets:
        given.pop(secret, None)
    return Invocation(known, owner, known.parameters.executed(given), given=given.keys())


@lru_cache(maxsize=1024)
def is_async(tool: ToolFunction) -> bool:
    """Return whether a tool is async."""
    return iscoroutinefunction(original_function(tool))


def name_of(descriptor: AgentToolDescriptor | None) -> str:
    """Return the name of a tool for messages."""
    return f"{descriptor.owner.__name__}.{descriptor.name}" if descriptor else "the tool"


def shown_to_the_model(descriptor: AgentToolDescriptor | None, result: object) -> object:
    """Return a result as a model may see it: redacted and within its budget; the same object if nothing changes."""
    if descriptor is None:
        return result
    sensitive, budget = descriptor.schema.output_sensitive_fields, descriptor.metadata.result_budget
    if not sensitive and budget.max_bytes is None:
        return result
    return within_budget(guard_json_value(to_json_value(result), sensitive, ContextExposurePolicy()), budget)


def shown_to_others(descriptor: AgentToolDescriptor, redactor: Redactor, result: object) -> JsonObject:
    """Return a result as readers of the run may see it: redacted, and truncated by the tool's policy.

    The notice of a truncation is only in truncated views: a view equal to the record is not stored separately.
    """
    captured = capture_result(
        result,
        descriptor.metadata.evidence,
        sensitive_fields=descriptor.schema.output_sensitive_fields,
        policy=_AS_EVIDENCE,
    )
    if captured.applied is EvidenceCapture.STRUCTURED:
        return redactor.json(captured.entries)
    return redactor.json({words.CAPTURE: captured.applied.value, **captured.entries})


def tool_giving(tools: Iterable[AgentToolDescriptor], result: JsonValue) -> AgentToolDescriptor | None:
    """Return the first of the tools of one name that gives such a result; None if there are no tools.

    Raises:
        CallerError: no tool gives it; the message has the schema of its results.
    """
    unfit: str | None = None
    for tool in tools:
        try:
            codec_of(tool.callable).decode(result)
        except AgentStructuredOutputError as error:
            schema = canonical_json(tool.schema.output_schema)
            problems = " ".join(error.problems)
            unfit = (
                f"{tool.name!r} does not give such a result: {problems} Its results have the schema {schema}."
            )
        else:
            return tool
    if unfit is not None:
        raise CallerError(unfit)
    return None


def reconciler(invocation: Invocation) -> Callable[[str], Awaitable[object]] | None:
    """Return the tool's function that looks up the outcome of an attempt; None if it has none."""
    name = invocation.tool.descriptor.metadata.reconcile
    if name is None:
        return None
    method: Any = getattr(invocation.owner, name)

    async def reconcile(key: str) -> object:
        found = method(key)
        return await found if isawaitable(found) else found

    return reconcile


def _descriptor_in(tool: ToolFunction, holder: type) -> AgentToolDescriptor:
    if (known := described(tool)) is not None:
        return known
    for descriptor in discover_agent_tools(holder).descriptors:
        if descriptor.callable is tool:
            return descriptor
    raise AgentToolDispatchError(
        f"{getattr(tool, '__qualname__', tool)} belongs to no class. Inside a run, tools are methods of pods."
    )


_TOOL_CALL = AgentActionKind.TOOL_CALL

CallPlace: TypeAlias = tuple[StepScope, str, str]
"""The place of a call: its scope, its id and its fingerprint. A plain tuple, because every call makes one."""


def place_of(run: Run, invocation: Invocation, asked: JsonObject) -> CallPlace:
    """Take the next id of a call in its scope, and return it with the fingerprint; an ephemeral run needs none."""
    tool, given = invocation.tool, part_given(asked, invocation.given)
    if run.replay.has_record:
        return _recorded_place(run, invocation, given)
    scope = scope_for(tool.label, given)
    action_id = scope.next_id(tool.label)
    return scope, action_id, _fingerprint(run, action_id, tool.name, given) if run.ledger.is_durable else ""


def _recorded_place(run: Run, invocation: Invocation, given: JsonObject) -> CallPlace:
    """Return the place of a call that may be recorded: under a former name, or by the rules of an earlier version."""
    tool = invocation.tool
    scope = scope_for(tool.label, given, partial(_recorded_branch, run, invocation, given))
    name, label = tool.name, tool.label
    if tool.former:
        name, label = _recorded_name(run, invocation, given, scope)
    action_id = scope.next_id(label)
    recorded = run.replay.fingerprint_of(action_id)
    if recorded is not None and _fits(run, (action_id, name, recorded), invocation, given):
        return scope, action_id, recorded
    return scope, action_id, _fingerprint(run, action_id, name, given)


def _recorded_branch(
    run: Run, invocation: Invocation, given: JsonObject, scope: StepScope, name_of: NameOf
) -> str | None:
    """Return the name under which the branch is recorded that a call begins; None if it is not."""
    labels = [label for _, label in _names(invocation)]
    names = (name_of(label, form) for form in _forms(given, invocation) for label in labels)
    return next((each for each in names if run.replay.has_scope(scope.coming_id(each))), None)


def _recorded_name(run: Run, invocation: Invocation, given: JsonObject, scope: StepScope) -> tuple[str, str]:
    """Return the name and label under which the next call in a scope is recorded; the present ones if it is not."""
    known: list[tuple[str, str]] = []
    for name, label in _names(invocation):
        action_id = scope.coming_id(label)
        recorded = run.replay.fingerprint_of(action_id)
        if recorded is not None:
            if _fits(run, (action_id, name, recorded), invocation, given):
                return name, label
            known.append((name, label))
    return known[0] if known else (invocation.tool.name, invocation.tool.label)


def _names(invocation: Invocation) -> tuple[tuple[str, str], ...]:
    """Return the names of a tool with their labels, former ones first: in a record they come before the present one."""
    tool = invocation.tool
    return (*tool.former, (tool.name, tool.label))


def _fits(run: Run, recorded: tuple[str, str, str], invocation: Invocation, given: JsonObject) -> bool:
    """Return whether the recorded call, of an id, name and fingerprint, is this one."""
    action_id, name, fingerprint = recorded
    return any(_fingerprint(run, action_id, name, form) == fingerprint for form in _forms(given, invocation))


def _forms(given: JsonObject, invocation: Invocation) -> Iterator[JsonValue]:
    """Return the arguments as fingerprints have them: those that were given, and all of them as in earlier versions."""
    yield given
    whole = to_json_value(invocation.arguments)
    if whole != given:
        yield whole


def _fingerprint(run: Run, action_id: str, name: str, given: JsonValue) -> str:
    return fingerprint_of(run.salt, action_id, _TOOL_CALL, name, given)
