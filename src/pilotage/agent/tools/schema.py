"""The interface of a tool, derived from its function once: identity, schemas, validator, injected parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from types import FunctionType
from typing import cast
from weakref import WeakKeyDictionary

from pilotage.agent.tools.docstring import Docstring, read_docstring
from pilotage.agent.tools.signature import (
    InjectedParameter,
    ToolParameter,
    ToolSignature,
    parameter_subject,
    read_signature,
    return_subject,
)
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError, AgentToolBindingError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, schema_with_sensitive_metadata
from pilotage.schema.encoding import is_masked
from pilotage.schema.reader import ShapeReader, with_default
from pilotage.schema.records import KnownDefault, NoDefault
from pilotage.schema.rejections import Rejection, reject_masked, spelling
from pilotage.schema.shape import (
    CoreSchema,
    JsonSchema,
    Property,
    TypeShape,
    allows_null,
    closed_object,
    described,
    scalars,
)
from pilotage.schema.validation import Validate, compile_validator
from pilotage.values import value


@value
class AgentToolIdentity:
    """Which tool it is, across restarts: the class that declares it and its name there."""

    owner_module: str
    owner_qualname: str
    name: str

    def __post_init__(self) -> None:
        reject_blank(self, owner_module=self.owner_module, owner_qualname=self.owner_qualname, name=self.name)

    @property
    def key(self) -> str:
        return f"{self.owner_module}.{self.owner_qualname}:{self.name}"


@value
class AgentToolSchemaHandle:
    """The schemas of a tool under the name the model knows it by."""

    name: str
    input_schema_name: str
    output_schema_name: str
    input_schema: JsonObject = field(default_factory=dict[str, JsonValue])
    output_schema: JsonObject = field(default_factory=dict[str, JsonValue])
    input_sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()
    output_sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()

    def __post_init__(self) -> None:
        reject_blank(
            self,
            name=self.name,
            input_schema_name=self.input_schema_name,
            output_schema_name=self.output_schema_name,
        )

    def input_schema_for(self, policy: ContextExposurePolicy | None = None) -> JsonObject:
        """Return the input schema, with its sensitive places marked when the policy asks for it."""
        return schema_with_sensitive_metadata(self.input_schema, self.input_sensitive_fields, policy)

    def output_schema_for(self, policy: ContextExposurePolicy | None = None) -> JsonObject:
        """Return the output schema, with its sensitive places marked when the policy asks for it."""
        return schema_with_sensitive_metadata(self.output_schema, self.output_sensitive_fields, policy)


# Without slots, because the validator is compiled at its first use and kept.
@value(slots=False)
class ToolInterface:
    """The interface of a function as a tool; schemas have no titles, which depend on the tool's name."""

    label: str
    parameters: tuple[ToolParameter, ...]
    injected: tuple[InjectedParameter, ...]
    input_schema: JsonSchema
    output_schema: JsonSchema
    core_schema: CoreSchema
    input_sensitive_fields: tuple[SensitiveFieldDescriptor, ...]
    output_sensitive_fields: tuple[SensitiveFieldDescriptor, ...]
    may_be_strict: bool = True
    """Whether a server may be asked to hold a model to the schema to the letter."""

    @cached_property
    def validate(self) -> Validate:
        return compile_validator(self.core_schema)

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """The names of what the model fills by position, in order."""
        return tuple(each.name for each in self.parameters if not each.is_keyword_only)

    @cached_property
    def reads_structured_payloads(self) -> bool:
        """Whether `args` and `kwargs` in a payload are its structure; not when they are parameters."""
        return not {"args", "kwargs"} & {each.name for each in self.parameters}


_interfaces: WeakKeyDictionary[FunctionType, ToolInterface] = WeakKeyDictionary()


def tool_interface(function: Callable[..., object]) -> ToolInterface:
    """Return the interface of a function, derived when it is first asked for.

    Raises:
        AgentDefinitionError: the function cannot be a tool; the message has every reason.
        AgentToolBindingError: this is no function.
    """
    plain: object = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        raise AgentToolBindingError(f"{plain!r} is no function. Bind arguments to a function or a method.")
    known = _interfaces.get(plain)
    if known is None:
        known = _interfaces[plain] = _derive(read_signature(plain), read_docstring(plain))
    return known


def use_interface(function: Callable[..., object], interface: ToolInterface) -> None:
    """Give a function an interface that does not follow from its signature."""
    _interfaces[cast(FunctionType, function)] = interface


def _derive(signature: ToolSignature, documentation: Docstring) -> ToolInterface:
    inputs, outputs = ShapeReader(for_input=True), ShapeReader(for_input=False)
    # Keyword-only parameters come last in a signature, so the order of properties is the order of a call.
    shape = closed_object(
        [_property(each, signature, inputs, documentation) for each in signature.parameters]
    )
    result = outputs.read(signature.returns, return_subject(signature.label))
    _raise_all([*signature.problems, *inputs.problems, *outputs.problems])
    _raise_all(_unreadable(signature, shape, result))
    sensitive = _input_sensitive_fields(signature)
    return ToolInterface(
        label=signature.label,
        parameters=signature.parameters,
        injected=signature.injected,
        input_schema=inputs.definitions.with_json(shape.json),
        output_schema=outputs.definitions.with_json(result.json),
        core_schema=inputs.definitions.with_core(shape.core),
        input_sensitive_fields=sensitive,
        output_sensitive_fields=find_sensitive_fields(signature.returns),
    )


def _unreadable(signature: ToolSignature, arguments: TypeShape, result: TypeShape) -> Sequence[str]:
    """Return why arguments or results could not be read back from the record of a call."""
    subject, read_back = return_subject(signature.label), ShapeReader(for_input=True)
    if signature.returns not in scalars():
        read_back.read(signature.returns, subject)
    members = as_object(arguments.json["properties"])
    masked = [parameter_subject(signature.label, name) for name, each in members.items() if is_masked(each)]
    if is_masked(result.json):
        masked.append(subject)
    return [*read_back.problems, *(reject_masked().about(each) for each in masked)]


def _input_sensitive_fields(signature: ToolSignature) -> tuple[SensitiveFieldDescriptor, ...]:
    found = [each for p in signature.parameters for each in find_sensitive_fields(p.annotation, (p.name,))]
    _raise_all([_about_secret(signature, each) for each in found if isinstance(each.field, SecretField)])
    return tuple(found)


def _about_secret(signature: ToolSignature, found: SensitiveFieldDescriptor) -> str:
    secret = Rejection(
        f"holds a secret in {'.'.join(found.path)!r}, which the model would have to write",
        "Make the secret a parameter of its own.",
    )
    return secret.about(parameter_subject(signature.label, found.path[0]))


def _raise_all(problems: Sequence[str]) -> None:
    if problems:
        raise AgentDefinitionError("\n".join(problems))


def _property(
    parameter: ToolParameter, signature: ToolSignature, reader: ShapeReader, documentation: Docstring
) -> Property:
    subject = parameter_subject(signature.label, parameter.name)
    shape = reader.read(parameter.annotation, subject)
    about = documentation.parameters.get(parameter.name)
    if about and "description" not in shape.json:
        shape = described(shape, description=about)
    match parameter.default:
        case KnownDefault(None) if not allows_null(shape.json):
            wrong = Rejection(
                f"has the default None, which its type {spelling(parameter.annotation)} does not allow",
                f"Write {spelling(parameter.annotation)} | None.",
            )
            reader.problems.append(wrong.about(subject))
        case KnownDefault(value):
            core: CoreSchema = {"type": "default", "schema": shape.core, "default": value}
            shape = TypeShape(with_default(shape, parameter.default).json, core)
        case _:
            pass
    return Property(parameter.name, shape, isinstance(parameter.default, NoDefault))
