"""Who a tool is, and what the model is shown of it."""

from __future__ import annotations

from dataclasses import field

from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, schema_with_sensitive_metadata
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
        """The input schema, with its sensitive places marked when the policy asks for it."""
        return schema_with_sensitive_metadata(self.input_schema, self.input_sensitive_fields, policy)

    def output_schema_for(self, policy: ContextExposurePolicy | None = None) -> JsonObject:
        """The output schema, with its sensitive places marked when the policy asks for it."""
        return schema_with_sensitive_metadata(self.output_schema, self.output_sensitive_fields, policy)
