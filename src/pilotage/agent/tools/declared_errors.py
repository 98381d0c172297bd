"""Declared errors of a tool or step: classes that a program may catch, live and in replay. Pure.

An error is known by a code of its class and not by the name of the class: the code is stored, and only the classes of
the declaration, and a few of the library's own, can be made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.container.names import snake_case
from pilotage.errors import (
    AgentDefinitionError,
    AgentMemoryError,
    AgentOutputGuardError,
    AgentRetrievalError,
    AgentStructuredOutputError,
    AgentToolBindingError,
    AgentToolDispatchError,
    ModelCallError,
    RunError,
    ToolError,
)
from pilotage.jsonvalue import is_list


class DeclaredErrors:
    """The error classes of one declaration, by code."""

    __slots__ = ("by_code", "codes")

    def __init__(self, classes: Sequence[type[RunError]] = ()) -> None:
        self.by_code: Mapping[str, type[RunError]] = {code_of(each): each for each in classes}
        self.codes: Mapping[type, str] = {each: code for code, each in self.by_code.items()}

    def code_for(self, error: BaseException) -> str | None:
        """Return the code of the declared class that an error is of, the nearest one; None if it is of none."""
        if not self.codes:
            return None
        return next((self.codes[each] for each in type(error).__mro__ if each in self.codes), None)


NO_ERRORS = DeclaredErrors()


LIBRARY_CLASSES = (
    AgentMemoryError,
    AgentOutputGuardError,
    AgentRetrievalError,
    AgentStructuredOutputError,
    AgentToolBindingError,
    AgentToolDispatchError,
    ModelCallError,
)
"""Errors of the library that a call may fail with; they keep their class like declared ones."""


def code_of(error: type[RunError]) -> str:
    """Return the code of an error class: its own `code`, else its name in lower case: `OutOfStock`, `out_of_stock`."""
    own: object = vars(error).get("code")
    return own if isinstance(own, str) else snake_case(error.__name__)


LIBRARY_ERRORS = DeclaredErrors(LIBRARY_CLASSES)


def reject_unfit_errors(label: str, errors: object) -> None:
    """Refuse a declaration of errors that cannot be distinguished, or are no classes of tool errors.

    Raises:
        AgentDefinitionError: the message begins with `label`.
    """
    if not is_list(errors) or not all(isinstance(each, type) and _is_own(each) for each in errors):
        raise AgentDefinitionError(
            f"{label}: errors is {errors!r}. "
            "Give it a list of classes that derive from ToolError, such as [OutOfStock]."
        )
    codes: dict[str, object] = {}
    for each in errors:
        if isinstance(each, type) and _is_own(each):
            first = codes.setdefault(code := code_of(each), each)
            if first is not each or code in LIBRARY_ERRORS.by_code:
                raise AgentDefinitionError(
                    f"{label}: errors has {each.__name__}, whose code {code!r} is that of another class. "
                    "Give it another `code`."
                )


def _is_own(error: type) -> bool:
    return issubclass(error, ToolError) and error is not ToolError
