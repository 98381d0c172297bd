"""Types that contain themselves: each is defined once and referred to by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import cast

from pilotage.schema.shape import CoreSchema, JsonSchema, Shape, reference


class TypeDefinitions:
    """Builds named types in place, or as a definition when one turns out to contain itself."""

    def __init__(self) -> None:
        self.json: dict[str, JsonSchema] = {}
        self._core: dict[str, CoreSchema] = {}
        self._open: list[Hashable] = []
        self._references: dict[Hashable, Shape] = {}

    @property
    def depth(self) -> int:
        """How many types the one being built is inside of."""
        return len(self._open)

    def once(self, key: Hashable, name: str, build: Callable[[], Shape]) -> Shape:
        """The shape of the type `key`, or a reference to it."""
        if key in self._references:
            return self._references[key]
        if key in self._open:
            return self._references.setdefault(key, reference(self._free_name(name)))
        self._open.append(key)
        try:
            shape = build()
        finally:
            self._open.pop()
        return self._define(self._references[key], shape) if key in self._references else shape

    def add(self, name: str, schema: JsonSchema) -> bool:
        """Keep a definition made elsewhere; False when the name already means something else."""
        return self.json.setdefault(name, schema) == schema

    def lift(self, core: CoreSchema) -> CoreSchema:
        """A core schema made elsewhere, its definitions kept here: two parameters of one type share them."""
        if core["type"] != "definitions":
            return core
        for definition in cast("list[CoreSchema]", core["definitions"]):
            self._core[cast(str, definition["ref"])] = definition
        return cast(CoreSchema, core["schema"])

    def with_core(self, core: CoreSchema) -> CoreSchema:
        """A core schema together with the definitions it may refer to."""
        if not self._core:
            return core
        return {"type": "definitions", "schema": core, "definitions": list(self._core.values())}

    def with_json(self, schema: JsonSchema) -> JsonSchema:
        """A JSON schema together with the definitions it may refer to."""
        return {**schema, "$defs": dict(self.json)} if self.json else schema

    def _define(self, target: Shape, shape: Shape) -> Shape:
        name = cast(str, target.core["schema_ref"])
        self.json[name] = shape.json
        self._core[name] = {**shape.core, "ref": name}
        return target

    def _free_name(self, name: str) -> str:
        taken = {
            cast(str, known.core["schema_ref"]) for known in self._references.values()
        } | self.json.keys()
        return name if name not in taken else f"{name}_{len(taken) + 1}"
