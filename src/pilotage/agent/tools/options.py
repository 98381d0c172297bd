"""The options of `agent_tool`, checked where the function they are for is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, fields
from functools import cache
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_args, get_type_hints, overload

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
)
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import is_list
from pilotage.values import value

P = ParamSpec("P")
Tool = TypeVar("Tool", bound="Callable[..., object] | classmethod[Any, ..., object]")


@value
class ToolOptions:
    """The options of `@agent_tool(...)`, by name: what a tool says about itself."""

    _: KW_ONLY
    name: str | None = None
    """What the tool is called; by default like its function."""
    schema_name: str | None = None
    """The name that the model sees; by default `name`."""
    description: str | None = None
    """What the model reads about the tool; by default the summary of the docstring."""
    permissions: Sequence[ToolPermission] = ()
    """The rights that a caller needs."""
    effects: ToolEffects | None = None
    """What a call does to the world."""
    idempotency: Idempotency = Idempotency.UNKNOWN
    """What happens when a call is made again."""
    data_access: DataAccess | None = None
    """Overrules what `effects` says about data."""
    externality: Externality | None = None
    """Overrules what `effects` says about other systems."""
    timeout: TimeoutPolicy | None = None
    """How long a call may take."""
    result_budget: ResultBudget | None = None
    """How large a result may be before it is cut for the model."""
    evidence: EvidenceCapture = EvidenceCapture.STRUCTURED
    """How much of a result the evidence keeps."""
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    """Whether a person must approve a call; derived from the risk by default."""
    reconcile: str | None = None
    """A method of the same class that finds out by `idempotency_key: str` what became of an earlier attempt."""
    reads_untrusted: bool | None = None
    """Whether strangers may have written the result; by default it follows from the effects."""
    reads_private: bool = False
    """Whether the result is private."""
    communicates: bool | None = None
    """Whether something may leave the application with a call; by default it follows from the effects."""
    accepts_untrusted: bool = False
    """Whether a call that untrusted content may have decided needs no person.

    A tool that only reads inside the application needs none either.
    """

    def reject_what_is_wrong(self, label: str) -> None:
        """Refuse values of the wrong type and blank texts, naming the function `label`."""
        texts: dict[str, str | None] = {}
        for name, expected in _expected_types().items():
            given: object = getattr(self, name)
            if given is not None and not isinstance(given, expected):
                raise AgentDefinitionError(
                    f"{label}: agent_tool.{name} is {given!r}. Give it a value of type {expected.__name__}."
                )
            if isinstance(given, str) and expected is str:
                texts[name] = given
        _reject_other_than_permissions(label, self.permissions)
        reject_blank(f"{label}: agent_tool", **texts)

    def metadata(self, *, deferred: bool = False) -> AgentToolMetadata:
        """Return the typed declaration; only a tool that no function carries out can be `deferred`."""
        effects = self.effects or ToolEffects()
        said = {name: given for name in _declared_names() if (given := getattr(self, name)) is not None}
        said.setdefault("data_access", effects.data_access)
        said.setdefault("externality", effects.externality)
        return AgentToolMetadata(**said, deferred=deferred)


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


@cache
def _expected_types() -> Mapping[str, type]:
    """Return the class of each option; permissions are a list and looked at one by one."""
    hints = get_type_hints(ToolOptions)
    names = [each.name for each in fields(ToolOptions) if each.name != "permissions"]
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
