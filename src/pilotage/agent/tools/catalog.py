"""The tools on offer: what each one is, and how they are found in a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property, lru_cache
from inspect import Parameter
from types import FunctionType
from typing import cast

from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_to
from pilotage.agent.tools.context import AgentToolApprovalContext
from pilotage.agent.tools.declare import get_agent_tool_definition, reject_covered_tool
from pilotage.agent.tools.metadata import AgentToolMetadata, Idempotency, effective_idempotency
from pilotage.agent.tools.schema import (
    AgentToolIdentity,
    AgentToolSchemaHandle,
    ToolInterface,
    tool_interface,
)
from pilotage.agent.tools.signature import RUNTIME_CONTEXT
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import canonical_json, to_json_value
from pilotage.safety.fields import DataSensitivity, SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import guard_json_value
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.schema.rejections import spelling
from pilotage.values import value


class ToolBinding(Enum):
    """The first argument of a tool's function, before those of the call."""

    INSTANCE = "instance"
    CLASS = "class"
    NOTHING = "nothing"


@value(slots=False)
class AgentToolDescriptor:
    """One tool: its identity, its schemas, what it declares, and the function itself.

    `callable` is the function as the class has it, unbound; called inside a run it becomes an action of
    the run. Derived facts are computed once.
    """

    identity: AgentToolIdentity
    owner: type
    callable: Callable[..., object]
    schema: AgentToolSchemaHandle
    description: str | None = None
    metadata: AgentToolMetadata = field(default_factory=AgentToolMetadata)
    binding: ToolBinding = ToolBinding.INSTANCE

    @property
    def name(self) -> str:
        return self.identity.name

    @cached_property
    def interface(self) -> ToolInterface:
        """The interface that was derived from the function's signature."""
        return tool_interface(self.callable)

    @cached_property
    def takes_runtime_context(self) -> bool:
        return any(parameter.name == RUNTIME_CONTEXT for parameter in self.interface.injected)

    @cached_property
    def secrets(self) -> Mapping[str, SecretField]:
        """The parameters that are filled with secrets when the tool runs."""
        injected = self.interface.injected
        return {parameter.name: parameter.secret for parameter in injected if parameter.secret is not None}

    @cached_property
    def effective_idempotency(self) -> Idempotency:
        """The idempotency that recovery may rely on."""
        return effective_idempotency(self.metadata, takes_key=self.takes_runtime_context)

    @cached_property
    def secret_results(self) -> tuple[SensitiveFieldDescriptor, ...]:
        """The parts of a result that are secrets."""
        return tuple(
            each for each in self.schema.output_sensitive_fields if isinstance(each.field, SecretField)
        )

    @cached_property
    def confidentiality(self) -> Confidentiality:
        """The confidentiality of a result: that of the tool, joined with the markers in its result type."""
        markers = {each.field.sensitivity for each in self.schema.output_sensitive_fields}
        if DataSensitivity.SECRET in markers:
            return Confidentiality.SECRET
        is_private = self.metadata.reads_private or bool(markers - {DataSensitivity.PUBLIC})
        return Confidentiality.TENANT if is_private else Confidentiality.PUBLIC

    @cached_property
    def result_label(self) -> TrustLabel | None:
        """The trust label that a run takes from a result; None for one that changes nothing."""
        is_untrusted = self.metadata.returns_untrusted
        if not is_untrusted and self.confidentiality is Confidentiality.PUBLIC:
            return None
        integrity = Integrity.UNTRUSTED if is_untrusted else Integrity.TRUSTED
        return TrustLabel(integrity, self.confidentiality, frozenset({f"tool:{self.schema.name}"}))

    def bind_invocation(self, payload: Mapping[str, object]) -> AgentToolBoundInvocation:
        """Bind what a model sent.

        Raises:
            AgentToolBindingError: it does not fit; `problems` has one sentence for each reason.
        """
        return bind_to(self.interface, payload)

    def approval_context(self, payload: Mapping[str, object]) -> AgentToolApprovalContext:
        """Return the question to a person before this call; arguments are shown guarded.

        Raises:
            AgentToolBindingError: the payload does not fit, so there is nothing to ask.
        """
        arguments = to_json_value(self.bind_invocation(payload).arguments)
        shown = guard_json_value(arguments, self.schema.input_sensitive_fields)
        return AgentToolApprovalContext(
            prompt=f"Approve {self.schema.name} with {canonical_json(shown)}?",
            action_ref=self.identity.key,
            metadata={
                "tool_identity": self.identity.key,
                "tool_schema_name": self.schema.name,
                "tool_name": self.name,
                "risk_axes": [axis.value for axis in self.metadata.risk.axes],
                "arguments": shown,
            },
        )


@value
class AgentToolCatalog:
    """Tools of distinct identities and distinct schema names."""

    descriptors: tuple[AgentToolDescriptor, ...] = ()
    _by_schema_name: dict[str, AgentToolDescriptor] = field(
        default_factory=dict[str, AgentToolDescriptor], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "descriptors", tuple(self.descriptors))
        keys: set[str] = set()
        for descriptor in self.descriptors:
            if descriptor.identity.key in keys:
                raise _same_identity(descriptor)
            keys.add(descriptor.identity.key)
            first = self._by_schema_name.setdefault(descriptor.schema.name, descriptor)
            if first is not descriptor:
                raise _same_schema_name(first, descriptor)
        self._reject_former_names_in_use()

    def _reject_former_names_in_use(self) -> None:
        """Refuse former names that another tool has or had: a recorded call would be of both."""
        former: dict[str, AgentToolDescriptor] = {}
        for descriptor in self.descriptors:
            for name in descriptor.metadata.formerly:
                other = self._by_schema_name.get(name) or former.setdefault(name, descriptor)
                if other is not descriptor:
                    raise _same_former_name(name, descriptor, other)

    @classmethod
    def merge(cls, *catalogs: AgentToolCatalog) -> AgentToolCatalog:
        """Return all tools of some catalogs; one that several of them share is taken once."""
        merged = {each.identity.key: each for catalog in catalogs for each in catalog.descriptors}
        return cls(tuple(merged.values()))

    def by_identity(self, identity: AgentToolIdentity) -> AgentToolDescriptor:
        """Return the tool of that identity.

        Raises:
            AgentDefinitionError: there is none.
        """
        for descriptor in self.descriptors:
            if descriptor.identity == identity:
                return descriptor
        raise AgentDefinitionError(f"The catalog has no tool {identity.key!r}.{self._offer(identity.key)}")

    def by_schema_name(self, schema_name: str) -> AgentToolDescriptor:
        """Return the tool that the model knows by `schema_name`.

        Raises:
            AgentDefinitionError: there is none; the message names what comes near.
        """
        reject_blank("AgentToolCatalog.by_schema_name", schema_name=schema_name)
        found = self._by_schema_name.get(schema_name)
        if found is None:
            raise AgentDefinitionError(f"The catalog has no tool {schema_name!r}.{self._offer(schema_name)}")
        return found

    def _offer(self, name: str) -> str:
        known = list(self._by_schema_name)
        from difflib import get_close_matches  # noqa: PLC0415 - only for the words of an error

        near = get_close_matches(name, known)
        if near:
            return f" Did you mean {' or '.join(map(repr, near))}?"
        return f" It has {', '.join(map(repr, known))}." if known else " It is empty."


def _same_identity(descriptor: AgentToolDescriptor) -> AgentDefinitionError:
    return AgentDefinitionError(
        f"Two tools have the identity {descriptor.identity.key!r}. "
        "Name one of them differently: @agent_tool(name=...)."
    )


def _same_schema_name(first: AgentToolDescriptor, second: AgentToolDescriptor) -> AgentDefinitionError:
    sources = [f"{spelling(each.owner)}.{each.name}" for each in (first, second)]
    return AgentDefinitionError(
        f"{' and '.join(sources)} both offer the tool {first.schema.name!r}. "
        "Name one of them differently: @agent_tool(schema_name=...)."
    )


def _same_former_name(
    name: str, renamed: AgentToolDescriptor, other: AgentToolDescriptor
) -> AgentDefinitionError:
    return AgentDefinitionError(
        f"{spelling(renamed.owner)}.{renamed.name} was formerly {name!r}, and so is or was "
        f"{spelling(other.owner)}.{other.name}. A recorded call of {name!r} must be of one tool: give the new one "
        "another name, or leave formerly out."
    )


@value
class _Member:
    """A function of a class, and how the class holds it."""

    owner: type
    function: FunctionType
    binding: ToolBinding


def discover_agent_tools(owner: type) -> AgentToolCatalog:
    """Return the tools of a class and its bases, in the order of their identities.

    A class that defines a member hides the member of that name in its bases, tool or not.

    Raises:
        AgentDefinitionError: something is wrong with the tools; the message has everything that is.
    """
    if not isinstance(cast(object, owner), type):
        raise AgentDefinitionError(f"discover_agent_tools got {owner!r}. Give it the class, not an instance.")
    return _reading_of(owner).catalog()


def members_of(owner: type) -> list[dict[str, object]]:
    """Return the current members of a class and its bases; what was read of a class holds while they are the same."""
    return [dict(vars(base)) for base in owner.__mro__]


class _ToolsOfClass:
    """The tools of a class, read again when the class was changed."""

    def __init__(self, owner: type) -> None:
        self._owner = owner
        self._members: list[dict[str, object]] = []
        self._catalog = AgentToolCatalog()

    def catalog(self) -> AgentToolCatalog:
        members = members_of(self._owner)
        if members != self._members:
            self._catalog = _discover(self._owner)
            self._members = members
        return self._catalog


@lru_cache(maxsize=1024)
def _reading_of(owner: type) -> _ToolsOfClass:
    return _ToolsOfClass(owner)


def _discover(owner: type) -> AgentToolCatalog:
    found: list[AgentToolDescriptor] = []
    problems: list[str] = []
    for member in _members(owner):
        try:
            found.extend(_tool(member, owner))
        except AgentDefinitionError as error:
            problems.append(str(error))
    if problems:
        raise AgentDefinitionError("\n".join(problems))
    return AgentToolCatalog(tuple(sorted(found, key=lambda tool: tool.identity.key)))


def _members(owner: type) -> Iterator[_Member]:
    seen: set[str] = set()
    for base in owner.__mro__[:-1]:
        for name, held in vars(base).items():
            if name not in seen:
                seen.add(name)
                function, binding = _unwrapped(held)
                if isinstance(function, FunctionType):
                    yield _Member(base, function, binding)


def _unwrapped(held: object) -> tuple[object, ToolBinding]:
    function: object = getattr(held, "__func__", held)
    if isinstance(held, staticmethod):
        return function, ToolBinding.NOTHING
    if isinstance(held, classmethod):
        return function, ToolBinding.CLASS
    return held, ToolBinding.INSTANCE


def _tool(member: _Member, discovered: type) -> Iterator[AgentToolDescriptor]:
    definition = get_agent_tool_definition(member.function)
    if definition is None:
        return
    reject_covered_tool(member.function)
    interface = tool_interface(member.function)
    if definition.metadata.reconcile is not None:
        reject_unfit_reconcile(interface.label, definition.metadata.reconcile, discovered)
    yield AgentToolDescriptor(
        identity=AgentToolIdentity(member.owner.__module__, member.owner.__qualname__, definition.name),
        owner=member.owner,
        callable=member.function,
        schema=_schema_handle(definition.schema_name, interface),
        description=definition.description,
        metadata=definition.metadata,
        binding=member.binding,
    )


def _schema_handle(name: str, interface: ToolInterface) -> AgentToolSchemaHandle:
    input_name, output_name = f"{name}.input", f"{name}.output"
    return AgentToolSchemaHandle(
        name=name,
        input_schema_name=input_name,
        output_schema_name=output_name,
        input_schema={"title": input_name, **interface.input_schema},
        output_schema={"title": output_name, **interface.output_schema},
        input_sensitive_fields=(*interface.input_sensitive_fields, *_secret_parameters(interface)),
        output_sensitive_fields=interface.output_sensitive_fields,
    )


def _secret_parameters(interface: ToolInterface) -> Iterator[SensitiveFieldDescriptor]:
    """Yield the descriptors of parameters that the secrets port fills: no schema has them, and no record."""
    for each in interface.injected:
        if each.secret is not None:
            yield SensitiveFieldDescriptor((each.name,), each.secret)


def reject_unfit_reconcile(label: str, name: str, owner: type) -> None:
    """Refuse a tool whose `reconcile` is no method of its class that takes one `idempotency_key: str`."""
    static: object = inspect.getattr_static(owner, name, None)
    held: object = getattr(static, "__func__", static)
    if not isinstance(held, FunctionType):
        wrong = f"is no method of {spelling(owner)}"
    elif not _takes_one_key(held):
        wrong = "does not take exactly one 'idempotency_key: str'"
    else:
        return
    raise AgentDefinitionError(
        f"{label}: reconcile names {name!r}, which {wrong}. "
        f"Write 'async def {name}(self, idempotency_key: str) -> ...'."
    )


def _takes_one_key(function: FunctionType) -> bool:
    parameters = [
        each for each in inspect.signature(function).parameters.values() if each.name not in {"self", "cls"}
    ]
    required = [each.name for each in parameters if each.default is Parameter.empty]
    key = next((each for each in parameters if each.name == "idempotency_key"), None)
    if key is None or required not in ([], ["idempotency_key"]):
        return False
    try:
        return resolve_annotation(key.annotation, inspect.unwrap(function).__globals__) is str
    except UnresolvedAnnotationError:
        return False
