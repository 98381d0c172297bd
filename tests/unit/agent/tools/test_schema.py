"""Types and the schemas they become."""

import re
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import (  # noqa: UP035
    Annotated,
    Any,
    Dict,
    Generic,
    List,
    Literal,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import annotated_types
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, StringConstraints, create_model
from pydantic import JsonValue as PydanticJsonValue
from typing_extensions import Doc, TypeAliasType
from typing_extensions import TypedDict as ExtendedTypedDict

from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.schema import tool_interface
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import PII, SecretField, SensitiveField, SensitiveFieldDescriptor

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ON = True
    TWO = 2
    NONE = None


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)
    norm: float = field(init=False, default=0.0)


@dataclass
class Node:
    value: int
    children: "list[Node]"


@dataclass
class Left:
    right: "Right | None"


@dataclass
class Right:
    left: Left


@dataclass
class Page(Generic[T]):
    items: list[T]
    following: "Page[T] | None" = None


class Address(TypedDict):
    city: str
    zip: NotRequired[str]


class Partial(ExtendedTypedDict, total=False):
    city: str


class Order(BaseModel):
    """An order."""

    model_config = ConfigDict(extra="forbid")
    title: str
    lines: list["OrderLine"] = []


class OrderLine(BaseModel):
    amount: Annotated[int, Field(ge=1, description="How many.")]


class Tree(BaseModel):
    children: list["Tree"] = []


class Numbers(RootModel[list[int]]):
    pass


UserId = NewType("UserId", int)
Pair = tuple[int, int]
Nested = TypeAliasType("Nested", "list[Nested] | int")
POINT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
    "required": ["x"],
}
NULL = {"type": "null"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def schema_of(annotation: Any, **more: Any) -> Any:
    """The schema of one parameter, and the definitions it needs."""

    def tool(it: Any) -> None: ...

    tool.__annotations__["it"] = annotation
    schema = tool_interface(tool).input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["it"]
    found: Any = schema["properties"]
    return found["it"] if "$defs" not in schema else (found["it"], schema["$defs"])


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (timedelta, {"type": "number", "description": "Seconds."}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (int | str, {"anyOf": [INTEGER, STRING]}),
        (None | int, {"anyOf": [NULL, INTEGER]}),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
        (list[int], {"type": "array", "items": INTEGER}),
        (List[int], {"type": "array", "items": INTEGER}),  # noqa: UP006
        (Sequence[int], {"type": "array", "items": INTEGER}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (Pair, {"type": "array", "prefixItems": [INTEGER, INTEGER], "minItems": 2, "maxItems": 2}),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (frozenset[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (AbstractSet[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Dict[str, int], {"type": "object", "additionalProperties": INTEGER}),  # noqa: UP006
        (Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Color, {"enum": ["red", "blue"], "type": "string"}),
        (Level, {"enum": [1, 2], "type": "integer"}),
        (Mixed, {"enum": [True, 2, None]}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (UserId, INTEGER),
        (JsonValue, {}),
        (PydanticJsonValue, {}),
        (JsonObject, {"type": "object", "additionalProperties": {}}),
        (list["JsonValue"], {"type": "array", "items": {}}),
        (Point, POINT),
        (list["Point"], {"type": "array", "items": POINT}),
        (Annotated[Point, "a remark nobody knows"], POINT),
        (
            Address,
            {
                "type": "object",
                "properties": {"city": STRING, "zip": STRING},
                "additionalProperties": False,
                "required": ["city"],
            },
        ),
        (Partial, {"type": "object", "properties": {"city": STRING}, "additionalProperties": False}),
        (
            Order,
            {
                "description": "An order.",
                "type": "object",
                "properties": {
                    "title": STRING,
                    "lines": {
                        "type": "array",
                        "default": [],
                        "items": {
                            "type": "object",
                            "properties": {
                                "amount": {"type": "integer", "minimum": 1, "description": "How many."}
                            },
                            "required": ["amount"],
                        },
                    },
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        ),
        (Numbers, {"type": "array", "items": INTEGER}),
    ],
)
def test_a_type_has_this_schema(annotation: object, schema: object) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (
            Annotated[float, annotated_types.Interval(gt=0, lt=1)],
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ),
        (Annotated[int, annotated_types.MultipleOf(5)], {"type": "integer", "multipleOf": 5}),
        (
            Annotated[Decimal, Field(gt=Decimal("0.5"), decimal_places=2)],
            {"type": "string", "format": "decimal", "exclusiveMinimum": "0.5"},
        ),
        (
            Annotated[str, StringConstraints(min_length=2, pattern="^a")],
            {"type": "string", "minLength": 2, "pattern": "^a"},
        ),
        (
            Annotated[list[int], annotated_types.Len(1, 3)],
            {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 3},
        ),
        (
            Annotated[dict[str, int], Field(max_length=2)],
            {"type": "object", "additionalProperties": INTEGER, "maxProperties": 2},
        ),
        (
            Annotated[int | None, Field(ge=1)],
            {"anyOf": [{"type": "integer", "minimum": 1}, NULL]},
        ),
        (Annotated[date, Field(gt=date(2024, 1, 1))], {"type": "string", "format": "date"}),
        (Annotated[int, Field(description="A number.")], {"type": "integer", "description": "A number."}),
        (Annotated[int, AfterValidator(abs)], INTEGER),
        (Annotated[int | None, AfterValidator(bool)], {"anyOf": [INTEGER, NULL]}),
        (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[str, StringConstraints(pattern=re.compile("^a"))], {"type": "string", "pattern": "^a"}),
        (
            Annotated[Literal["a"], Doc("A letter.")],
            {"enum": ["a"], "type": "string", "description": "A letter."},
        ),
    ],
)
def test_limits_and_descriptions_appear_in_the_schema(annotation: object, schema: object) -> None:
    assert schema_of(annotation) == schema


NODE = {
    "type": "object",
    "properties": {"value": INTEGER, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "additionalProperties": False,
    "required": ["value", "children"],
}


@pytest.mark.parametrize(
    ("annotation", "schema", "definitions"),
    [
        (Node, {"$ref": "#/$defs/Node"}, {"Node": NODE}),
        (list[Node], {"type": "array", "items": {"$ref": "#/$defs/Node"}}, {"Node": NODE}),
        (
            Right,
            {"$ref": "#/$defs/Right"},
            {
                "Right": {
                    "type": "object",
                    "properties": {
                        "left": {
                            "type": "object",
                            "properties": {"right": {"anyOf": [{"$ref": "#/$defs/Right"}, NULL]}},
                            "additionalProperties": False,
                            "required": ["right"],
                        }
                    },
                    "additionalProperties": False,
                    "required": ["left"],
                }
            },
        ),
        (
            Nested,
            {"$ref": "#/$defs/Nested"},
            {"Nested": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Nested"}}, INTEGER]}},
        ),
        (
            Page[int],
            {"$ref": "#/$defs/Page"},
            {
                "Page": {
                    "type": "object",
                    "properties": {
                        "items": {"type": "array", "items": INTEGER},
                        "following": {"anyOf": [{"$ref": "#/$defs/Page"}, NULL], "default": None},
                    },
                    "additionalProperties": False,
                    "required": ["items"],
                }
            },
        ),
        (
            Tree,
            {"$ref": "#/$defs/Tree"},
            {
                "Tree": {
                    "type": "object",
                    "properties": {
                        "children": {"type": "array", "default": [], "items": {"$ref": "#/$defs/Tree"}}
                    },
                }
            },
        ),
    ],
)
def test_a_type_that_contains_itself_is_defined_once(
    annotation: object, schema: object, definitions: object
) -> None:
    assert schema_of(annotation) == (schema, definitions)


def test_recursive_types_of_one_name_are_kept_apart() -> None:
    def tool(whole: Page[int], text: Page[str]) -> None: ...

    schema: Any = tool_interface(tool).input_schema
    assert schema["properties"] == {"whole": {"$ref": "#/$defs/Page"}, "text": {"$ref": "#/$defs/Page_2"}}
    assert schema["$defs"]["Page_2"]["properties"]["items"] == {"type": "array", "items": STRING}


def test_a_recursive_type_is_shared_by_the_parameters_that_use_it() -> None:
    def tool(first: Node, second: Tree, third: Node, fourth: Tree) -> None: ...

    schema: Any = tool_interface(tool).input_schema
    assert list(schema["$defs"]) == ["Node", "Tree"]
    payload = {name: {"value": 1, "children": []} for name in ("first", "third")}
    bound = tool_interface(tool).validate({**payload, "second": {}, "fourth": {}})
    assert bound["third"] == Node(1, [])
    assert bound["fourth"] == Tree()


def test_two_recursive_models_of_one_name_are_refused() -> None:
    def tool(first: Tree, second: other_tree()) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(AgentDefinitionError, match="two recursive types that are both called Tree"):
        tool_interface(tool)


def other_tree() -> type[BaseModel]:
    return create_model("Tree", root=("Tree | None", None), __module__=__name__)


def test_defaults_and_docstrings_appear_in_the_schema() -> None:
    def tool(
        query: str,
        limit: int = 5,
        since: date = date(2024, 1, 2),
        shade: Color = Color.RED,
        only: str | None = None,
        mixed: Mixed = None,  # type: ignore[assignment]
        *,
        unknown: Annotated[int, Field(description="From the annotation.")] = 1,
    ) -> None:
        """Search.

        Args:
            query: What to look for.
            unknown: From the docstring.
        """

    schema: Any = tool_interface(tool).input_schema
    assert schema["required"] == ["query"]
    assert schema["properties"] == {
        "query": {"type": "string", "description": "What to look for."},
        "limit": {"type": "integer", "default": 5},
        "since": {"type": "string", "format": "date", "default": "2024-01-02"},
        "shade": {"enum": ["red", "blue"], "type": "string", "default": "red"},
        "only": {"anyOf": [STRING, NULL], "default": None},
        "mixed": {"enum": [True, 2, None], "default": None},
        "unknown": {"type": "integer", "description": "From the annotation.", "default": 1},
    }


def test_a_default_without_json_form_is_not_shown() -> None:
    def tool(limit: int = object()) -> None: ...  # type: ignore[assignment]

    schema: Any = tool_interface(tool).input_schema
    assert schema["properties"] == {"limit": INTEGER}
    assert "required" not in schema


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def tool() -> None: ...

    assert tool_interface(tool).input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [(None, NULL), (list[int], {"type": "array", "items": INTEGER}), (Tree, None), (Point, None)],
)
def test_the_return_type_is_the_output_schema(annotation: object, schema: object) -> None:
    def tool() -> Any: ...

    tool.__annotations__["return"] = annotation
    found: Any = tool_interface(tool).output_schema
    if annotation is Point:
        assert found["properties"]["norm"] == {"type": "number", "default": 0.0}
    elif annotation is Tree:
        assert found["$ref"] == "#/$defs/Tree"
        assert list(found["$defs"]) == ["Tree"]
    else:
        assert found == schema


def test_what_is_injected_is_not_in_the_schema() -> None:
    def pay(
        self: object,
        to: Annotated[str, SensitiveField(PII.ACCOUNT_ID)],
        api_key: Annotated[str, SecretField()],
        backup_key: Annotated[str, SecretField()] | None,
        runtime_context: AgentToolRuntimeContext,
    ) -> None: ...

    interface = tool_interface(pay)
    properties: Any = interface.input_schema["properties"]
    assert list(properties) == ["to"]
    assert [each.name for each in interface.injected] == ["api_key", "backup_key", "runtime_context"]
    assert interface.input_sensitive_fields == (
        SensitiveFieldDescriptor(("to",), SensitiveField(PII.ACCOUNT_ID)),
    )


@dataclass
class Customer:
    name: str
    email: Annotated[str, SensitiveField(PII.EMAIL)]
    token: Annotated[str, SecretField()] = ""


def test_sensitive_results_are_known_by_their_path() -> None:
    def find() -> list[Customer]: ...

    assert tool_interface(find).output_sensitive_fields == (
        SensitiveFieldDescriptor(("email",), SensitiveField(PII.EMAIL)),
        SensitiveFieldDescriptor(("token",), SecretField()),
    )


def test_an_interface_is_derived_once() -> None:
    def tool(query: str) -> None: ...

    assert tool_interface(tool) is tool_interface(tool)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is new in Python 3.12")
def test_aliases_of_the_type_statement_mean_what_they_stand_for() -> None:
    names: dict[str, Any] = {}
    exec("type Pair[A] = tuple[A, A]\ntype Chain = dict[str, Chain]", names)  # noqa: S102
    assert schema_of(names["Pair"][int]) == schema_of(Pair)
    assert schema_of(names["Chain"]) == (
        {"$ref": "#/$defs/Chain"},
        {"Chain": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Chain"}}},
    )
