"""The shape a model's answer must have: a JSON schema, and the type it is decoded into."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.schema.reader import ShapeReader
from pilotage.schema.rejections import spelling
from pilotage.schema.shape import Property, closed_object
from pilotage.schema.validation import MisfitsError, Validate, compile_validator
from pilotage.values import value

# pydantic-core validates objects; other types travel as the only member of one.
_MEMBER = "answer"


@value
class JsonSchemaConstraint:
    """A JSON schema; `strict` asks the server to enforce it while the model writes."""

    schema: JsonObject
    strict: bool = True


@value
class StructuredOutputSpec:
    """Asks for an answer of a shape. `output_type` is what `decode` makes of it."""

    constraint: JsonSchemaConstraint
    output_type_name: str | None = None
    output_type: object = None

    @classmethod
    def from_type(cls, output_type: object, *, strict: bool = True) -> StructuredOutputSpec:
        """The spec of a type: a dataclass, a pydantic model, or anything a tool may take.

        Raises:
            AgentDefinitionError: the type has no JSON schema; the message says what to write instead.
        """
        spec, _ = _derived(output_type)
        if strict is spec.constraint.strict:
            return spec
        return replace(spec, constraint=replace(spec.constraint, strict=strict))

    def decode(self, value: JsonValue) -> object:
        """The answer as a value of the type; without a type the JSON as it is.

        Raises:
            AgentStructuredOutputError: the answer does not fit; `problems` has a sentence for each reason.
        """
        if self.output_type is None:
            return value
        _, validate = _derived(self.output_type)
        try:
            return validate({_MEMBER: value})[_MEMBER]
        except MisfitsError as error:
            problems = [
                f"{m.path.removeprefix(_MEMBER).lstrip('.') or 'the answer'}: {m.words}."
                for m in error.misfits
            ]
        raise AgentStructuredOutputError(
            f"the answer is no {self.output_type_name}: {' '.join(problems)}", problems=problems
        )


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
