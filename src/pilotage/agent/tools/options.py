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
from pilotage.values import value

P = ParamSpec("P")
Tool = TypeVar("Tool", bound="Callable[..., object] | classmethod[Any, ..., object]")


@value
class ToolOptions:
    """The options of `@agent_tool(...)`: what a tool says about itself. None leaves it to what follows from the rest.

    `name` and `description` default to the function's name and the summary of its docstring; `schema_name`, which the
    model sees, to `name`. `data_access` and `externality` overrule what `effects` says. `reconcile` names a method of
    the same class that finds out by `idempotency_key: str` what became of an earlier attempt.
    """

    _: KW_ONLY
    name: str | None = None
    schema_name: str | None = None
    description: str | None = None
    permissions: Sequence[ToolPermission] = ()
    effects: ToolEffects | None = None
    idempotency: Idempotency = Idempotency.UNKNOWN
    data_access: DataAccess | None = None
    externality: Externality | None = None
    timeout: TimeoutPolicy | None = None
    result_budget: ResultBudget | None = None
    evidence: EvidenceCapture = EvidenceCapture.STRUCTURED
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    reconcile: str | None = None
    reads_untrusted: bool | None = None
    reads_private: bool = False
    communicates: bool | None = None
    accepts_untrusted: bool = False

    def reject_what_is_wrong(self, label: str) -> None:
        """Refuse values of the wrong type and blank texts, naming the function `label`."""
        texts: dict[str, str | None] = {}
        for name, expected in _expected_types().items():
            given = cast(object, getattr(self, name))
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
    (kind,) = [each for each in get_args(hint) or [hint] if each is not type(None)]
    return cast(type, kind)


def _reject_other_than_permissions(label: str, permissions: object) -> None:
    is_list = isinstance(permissions, Sequence) and not isinstance(permissions, str)
    members = list(cast("Sequence[object]", permissions)) if is_list else []
    if is_list and all(isinstance(member, ToolPermission) for member in members):
        return
    raise AgentDefinitionError(
        f"{label}: agent_tool.permissions is {permissions!r}. "
        "Give it a list of ToolPermission values, such as [ToolPermission('payments.pay')]."
    )
