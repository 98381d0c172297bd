"""`agent_tool`: marks a typed function or method as a tool, with its options.

The options are checked where their function is known. A tool that is called inside a run finds the run by one context
variable.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, field, fields
from functools import cache
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_args, get_type_hints, overload
from weakref import WeakKeyDictionary

from pilotage.agent.tools.context import DEFINITION_SLOT, calls_are_plain, reject_gated_call
from pilotage.agent.tools.declared_errors import reject_unfit_errors
from pilotage.agent.tools.docstring import read_docstring
from pilotage.agent.tools.metadata import (
    AgentToolMetadata,
    DataAccess,
    EvidenceCapture,
    Externality,
    Idempotency,
    ResultBudget,
    TimeoutPolicy,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
    reject_unfit_prompt,
)
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError, AgentToolDispatchError, ToolError
from pilotage.jsonvalue import is_list
from pilotage.values import value


class IToolCalls(Protocol):
    """Takes over the tool calls made inside a run.

    `call` is asked at the moment the call is made, before anything is awaited, so it may number calls in
    the order of the program. For an async tool it returns an awaitable. It must reach the tool through
    `original_function(tool)`; calling `tool` itself would come back here.
    """

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Perform the call; `args` starts with the instance when the tool is a method."""
        ...

    def invoke(
        self, tool: Callable[..., object], arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        """Perform a call that a model asked for by this id: the result is what the model may see of it.

        `arguments` are the ones that the model gave, validated, without defaults.
        """
        ...


active_tool_calls: ContextVar[IToolCalls | None] = ContextVar("pilotage_active_tool_calls", default=None)


@contextmanager
def tool_calls_go_to(calls: IToolCalls) -> Generator[None]:
    """Hand every tool call made in this context to `calls`.

    Raises:
        AgentToolDispatchError: the calls of this context go to a run already.
    """
    if active_tool_calls.get() is not None:
        raise AgentToolDispatchError(
            "tool calls in this context go to a run already; nothing can take its place."
        )
    token = active_tool_calls.set(calls)
    try:
        yield
    finally:
        active_tool_calls.reset(token)


class OutsideRuns:
    """Code of the application that is asked during a run and is no part of its program, such as telemetry.

    Its calls of tools are none of the run's: replay would not repeat them. Nor are they those of a script that started
    the run inside of its `plain_calls`.
    """

    __slots__ = ("_place", "_plain")

    def __enter__(self) -> None:
        self._place = active_tool_calls.set(None)
        self._plain = calls_are_plain.set(False)

    def __exit__(self, *_: object) -> None:
        active_tool_calls.reset(self._place)
        calls_are_plain.reset(self._plain)


P = ParamSpec("P")
Tool = TypeVar("Tool", bound="Callable[..., object] | classmethod[Any, ..., object]")


@value
class ToolOptions:
    """The options of `@agent_tool(...)`, by name: what a tool says about itself."""

    _: KW_ONLY
    name: str | None = None
    """The name of the tool; by default that of its function."""
    schema_name: str | None = None
    """The name that the model sees; by default `name`."""
    description: str | None = None
    """The description for the model; by default the summary of the docstring."""
    permissions: Sequence[ToolPermission] = ()
    """The rights that a caller needs."""
    effects: ToolEffects | None = None
    """The effects of a call on the world."""
    idempotency: Idempotency = Idempotency.UNKNOWN
    """The effect of repeating a call."""
    data_access: DataAccess | None = None
    """Overrules what `effects` says about data."""
    externality: Externality | None = None
    """Overrules what `effects` says about other systems."""
    timeout: TimeoutPolicy | None = None
    """The time limit of a call."""
    result_budget: ResultBudget | None = None
    """The size from which a result is cut for the model."""
    evidence: EvidenceCapture = EvidenceCapture.STRUCTURED
    """The part of a result that the evidence has."""
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    """Whether a person must approve a call; derived from the risk by default."""
    prompt: str | None = None
    """The question to a person before a call: `{name}` stands for an argument; by default it names the tool."""
    reconcile: str | None = None
    """A method of the same class that finds out by `idempotency_key: str` what became of an earlier attempt."""
    reads_untrusted: bool | None = None
    """Whether strangers may have written the result or the text of a failure.

    By default it follows from the effects: True for a tool that reaches outside, and for one that declares no effects.
    """
    reads_private: bool = False
    """Whether the result is private."""
    communicates: bool | None = None
    """Whether something may leave the application with a call; by default it follows from the effects."""
    accepts_untrusted: bool = False
    """Whether a call that untrusted content may have decided needs no person.

    A tool that only reads inside the application needs none either.
    """
    errors: Sequence[type[ToolError]] = ()
    """The classes of errors that a program may catch, live and in replay; every other one comes as a `ToolError`."""
    formerly: Sequence[str] = ()
    """Names that the tool had for models in earlier releases: recorded calls of these names are calls of this tool."""

    def reject_what_is_wrong(self, label: str) -> None:
        """Refuse values of the wrong type and blank texts, naming the function `label`."""
        texts: dict[str, str | None] = {}
        for name, expected in _expected_types().items():
            given: object = getattr(self, name)
            if given is not None and not isinstance(given, expected):
                shown, way_out = given, f"Give it a value of type {expected.__name__}."
                if inspect.isroutine(given):
                    shown, way_out = given.__qualname__, f"Call it: {given.__qualname__}()."
                raise AgentDefinitionError(f"{label}: agent_tool.{name} is {shown!r}. {way_out}")
            if isinstance(given, str) and expected is str:
                texts[name] = given
        _reject_other_than_permissions(label, self.permissions)
        reject_unfit_errors(f"{label}: agent_tool", self.errors)
        _reject_other_than_names(label, self.formerly)
        reject_blank(f"{label}: agent_tool", **texts)

    def metadata(self, *, deferred: bool = False) -> AgentToolMetadata:
        """Return the typed declaration; only a tool that no function carries out can be `deferred`."""
        effects = self.effects or ToolEffects()
        declared = {name: given for name in _declared_names() if (given := getattr(self, name)) is not None}
        declared.setdefault("data_access", effects.data_access)
        declared.setdefault("externality", effects.externality)
        return AgentToolMetadata(**declared, deferred=deferred)


class AgentToolDecorator(Protocol):
    """Marks a function, method, static or class method, and gives back the same kind of thing."""

    def __call__(self, tool: Tool, /) -> Tool: ...


class OptionalDecorator(Protocol[P]):
    """A decorator that is used bare, or with options."""

    @overload
    def __call__(self, *_: P.args, **options: P.kwargs) -> AgentToolDecorator: ...
    @overload
    def __call__(self, tool: Tool, /) -> Tool: ...


def takes_options_of(options: Callable[P, object]) -> Callable[[Callable[..., object]], OptionalDecorator[P]]:
    """Give a decorator the parameters of `options` for type checkers; the function stays as it is."""

    def typed(decorator: Callable[..., object]) -> OptionalDecorator[P]:
        return cast("OptionalDecorator[P]", decorator)

    return typed


@cache
def _declared_names() -> Sequence[str]:
    """Return the options that are part of the declaration; the others name the tool."""
    options = {each.name for each in fields(ToolOptions)}
    return [each.name for each in fields(AgentToolMetadata) if each.name in options]


_LISTS = frozenset({"permissions", "errors", "formerly"})


@cache
def _expected_types() -> Mapping[str, type]:
    """Return the class of each option; lists are looked at one by one."""
    hints = get_type_hints(ToolOptions)
    names = [each.name for each in fields(ToolOptions) if each.name not in _LISTS]
    return {name: _without_none(hints[name]) for name in names}


def _without_none(hint: object) -> type:
    kinds: list[object] = [*get_args(hint)] or [hint]
    (kind,) = (each for each in kinds if isinstance(each, type) and each is not type(None))
    return kind


def _reject_other_than_permissions(label: str, permissions: object) -> None:
    if is_list(permissions) and all(isinstance(each, ToolPermission) for each in permissions):
        return
    raise AgentDefinitionError(
        f"{label}: agent_tool.permissions is {permissions!r}. "
        "Give it a list of ToolPermission values, such as [ToolPermission('payments.pay')]."
    )


def _reject_other_than_names(label: str, names: object) -> None:
    if is_list(names) and all(isinstance(each, str) and each.strip() for each in names):
        return
    raise AgentDefinitionError(
        f"{label}: agent_tool.formerly is {names!r}. Give it a list of names, such as ['pay']."
    )


@value
class AgentToolDefinition:
    """The declaration of a function that is a tool."""

    name: str
    schema_name: str
    description: str | None = None
    metadata: AgentToolMetadata = field(default_factory=AgentToolMetadata)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, schema_name=self.schema_name, description=self.description)


@takes_options_of(ToolOptions)
def agent_tool(tool: object = None, /, **options: Any) -> object:
    """Offer a typed function or method to the model; its signature is the schema.

    The result is a plain function of the same signature. Inside a run, the run performs the call; outside one,
    calling it calls the function, unless it needs a run and its instance belongs to an application (`plain_calls`).
    The options are the fields of `ToolOptions`.

    Raises:
        AgentDefinitionError: a value is blank or of the wrong type, or this is not a function.
    """
    declared = ToolOptions(**options)
    if tool is not None:
        return _declare(tool, declared)

    def decorate(function: object, /) -> object:
        return _declare(function, declared)

    return decorate


def get_agent_tool_definition(function: object) -> AgentToolDefinition | None:
    """Return the declaration of `function`, or None when it is not a tool.

    Raises:
        AgentDefinitionError: the place of the definition holds something else.
    """
    members: dict[str, object] = getattr(function, "__dict__", {})
    found = members.get(DEFINITION_SLOT)
    if found is None or isinstance(found, AgentToolDefinition):
        return found
    raise AgentDefinitionError(
        f"{tool_label(function)}: {DEFINITION_SLOT} holds {type(found).__qualname__}, not an "
        "AgentToolDefinition. Declare the tool with @agent_tool and leave that attribute alone."
    )


# By identity, because decorators that copy attributes would copy a mark as well.
_originals: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()


def original_function(tool: Callable[..., object]) -> Callable[..., object]:
    """Return the original function of a tool, unbound; calling it never goes through a run."""
    plain: Callable[..., object] = getattr(tool, "__func__", tool)
    return _originals.get(plain, plain) if isinstance(plain, FunctionType) else plain


def reject_covered_tool(function: Callable[..., object]) -> None:
    """Refuse a tool under another decorator: a run could not reach the function without the tool."""
    if original_function(function) is function:
        raise AgentDefinitionError(
            f"{tool_label(function)} is a tool under another decorator. Put @agent_tool on top of it."
        )


def tool_label(function: object) -> str:
    """Return how messages call a function or property: `Owner.method`."""
    function = getattr(function, "fget", function)
    name: str = getattr(function, "__qualname__", None) or repr(function)
    return name.rpartition("<locals>.")[2]


def _declare(tool: object, options: ToolOptions) -> object:
    function: object = getattr(tool, "__func__", tool)
    if isinstance(tool, staticmethod):
        return staticmethod(_wrap(function, options))
    if isinstance(tool, classmethod):
        return classmethod(_wrap(function, options))
    return _wrap(tool, options)


def _wrap(function: object, options: ToolOptions) -> Callable[..., object]:
    if not isinstance(function, FunctionType):
        kind = "class" if isinstance(function, type) else type(function).__name__
        raise AgentDefinitionError(
            f"@agent_tool marks {tool_label(function)}, which is a {kind}. Put it on a function or a method."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise AgentDefinitionError(
            f"{tool_label(function)} is a generator. A tool has one result: return it, as a list if need be."
        )
    if get_agent_tool_definition(function) is not None:
        raise AgentDefinitionError(f"{tool_label(function)} is a tool already. Put @agent_tool on it once.")
    return as_tool(function, _definition_of(function, options))


def as_tool(function: FunctionType, definition: AgentToolDefinition) -> Callable[..., object]:
    """Return the function as a tool: inside a run, calling it is an action of the run."""

    @functools.wraps(function)
    def tool(*args: Any, **kwargs: Any) -> object:
        calls = active_tool_calls.get()
        if calls is None:
            reject_gated_call(tool, definition.metadata, args, kwargs)
            return function(*args, **kwargs)
        return calls.call(tool, args, kwargs)

    def gated(*args: Any, **kwargs: Any) -> object:
        return tool(*args, **kwargs)

    # What `inspect` unwraps for the signature and the names in annotations must not be a way around the gate.
    signature = inspect.Signature.from_callable(function, follow_wrapped=False)
    parts = (gated.__code__, function.__globals__, function.__name__, None, gated.__closure__)
    vars(tool).update(__signature__=signature, __wrapped__=FunctionType(*parts))

    if sys.version_info >= (3, 12) and inspect.iscoroutinefunction(function):
        inspect.markcoroutinefunction(tool)
    tool.__dict__[DEFINITION_SLOT] = definition
    _originals[cast(FunctionType, tool)] = function
    return tool


def _definition_of(function: FunctionType, options: ToolOptions) -> AgentToolDefinition:
    options.reject_what_is_wrong(tool_label(function))
    if options.prompt is not None:
        reject_unfit_prompt(tool_label(function), options.prompt, _parameters_of(function))
    name = options.name or function.__name__
    return AgentToolDefinition(
        name=name,
        schema_name=options.schema_name or name,
        description=options.description or read_docstring(function).summary,
        metadata=options.metadata(),
    )


def _parameters_of(function: FunctionType) -> list[str]:
    """Return the parameters that a call may have as arguments."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
