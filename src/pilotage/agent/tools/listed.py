"""`ListedTool`: a tool as a server describes it, and the digest by which a definition is recognised. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, as_string, empty_object, json_digest
from pilotage.values import value

_VERSION = "tool/1"
_LIST_VERSION = "tools/1"


@value
class ListedTool:
    """A tool in the list of a server: all that a model, a person or the runtime gets to know of it.

    `hints` are what else the server says about the tool and its effects, such as a title. Two tools with equal
    definitions have equal digests, whatever the order of the keys in their schemas.
    """

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=empty_object)
    output_schema: JsonObject | None = None
    hints: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name)

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole definition, in hex."""
        return json_digest([_VERSION, self.to_payload()])

    @property
    def content_digest(self) -> str:
        """The SHA-256 of the definition without its name: equal for a tool that was renamed."""
        return json_digest([_VERSION, {**self.to_payload(), "name": None}])

    def to_payload(self) -> JsonObject:
        """Return the definition as JSON."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "hints": self.hints,
        }

    @classmethod
    def from_payload(cls, payload: JsonValue) -> ListedTool:
        """Return the tool of a payload.

        Raises:
            KeyError, TypeError: the payload is not one that `to_payload` gave.
        """
        given = as_object(payload)
        output = given["output_schema"]
        return cls(
            as_string(given["name"]),
            as_string(given["description"]),
            as_object(given["input_schema"]),
            None if output is None else as_object(output),
            as_object(given["hints"]),
        )


def digest_of_list(tools: Iterable[ListedTool]) -> str:
    """Return the digest of a whole list, whatever its order, in the form that `accept="sha256:..."` takes."""
    return f"sha256:{json_digest([_LIST_VERSION, *sorted(tool.digest for tool in tools)])}"
