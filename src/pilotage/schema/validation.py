"""Compiles a core schema into a validator. The first use imports pydantic-core; nothing before does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from pilotage.schema.shape import UNION_MEMBER, CoreSchema
from pilotage.values import value

Validate: TypeAlias = Callable[[Mapping[str, object]], dict[str, object]]


@value
class Misfit:
    """One value that does not fit: where it stands, which rule it breaks, and the rule in words.

    The words may come from the program's own code and quote the value, unless `is_plain` is true.
    """

    place: tuple[str | int, ...]
    rule: str
    words: str

    @property
    def is_plain(self) -> bool:
        return self.rule.endswith("_type") or self.rule in {"missing", "extra_forbidden"}

    @property
    def path(self) -> str:
        """The place as a person writes it: `order.lines[0].amount`."""
        text = ""
        for step in self.place:
            if isinstance(step, int):
                text += f"[{step}]"
            elif not step.startswith(UNION_MEMBER):
                text += f".{step}" if text else step
        return text

    @property
    def reading(self) -> str:
        """Which members of unions were tried on the way, in words; empty without unions."""
        members = [str(step)[1:] for step in self.place if str(step).startswith(UNION_MEMBER)]
        return f" (read as {', '.join(members)})" if members else ""


class MisfitsError(Exception):
    """Arguments that do not fit, all of them."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        super().__init__(f"{len(misfits)} values do not fit")
        self.misfits = tuple(misfits)


def compile_validator(core: CoreSchema) -> Validate:
    """A function that returns validated arguments in the order of the schema, or raises `MisfitsError`."""
    import pydantic_core  # noqa: PLC0415 - costs 30 ms, and a program may never bind anything

    schema = cast(pydantic_core.CoreSchema, cast(object, core))
    # Values must not show up in anybody's log because an error was logged.
    validator = pydantic_core.SchemaValidator(schema, pydantic_core.CoreConfig(hide_input_in_errors=True))

    def validate(given: Mapping[str, object]) -> dict[str, object]:
        try:
            arguments: dict[str, object] = validator.validate_python(given)
        except pydantic_core.ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            misfits = [Misfit(detail["loc"], detail["type"], detail["msg"]) for detail in details]
        else:
            return arguments
        raise MisfitsError(misfits)

    return validate
