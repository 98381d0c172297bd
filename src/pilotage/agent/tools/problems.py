"""Says what is wrong with arguments, in sentences for the model that sent them."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.tools.schema import ToolInterface
from pilotage.schema.validation import Misfit

# A model learns nothing from the hundredth sentence, and the payload decides how many there are.
_AT_MOST = 20


def sentences_about(misfits: Sequence[Misfit], interface: ToolInterface) -> list[str]:
    """What is wrong, a sentence for each misfit."""
    sentences = [_sentence(misfit, interface) for misfit in misfits[:_AT_MOST]]
    left_out = len(misfits) - len(sentences)
    return [*sentences, f"There are {left_out} more problems."] if left_out else sentences


def _sentence(misfit: Misfit, interface: ToolInterface) -> str:
    """What is wrong, naming the parameter and what is expected, never a sensitive value."""
    if misfit.rule == "extra_forbidden":
        return _about_unknown(misfit, interface)
    if misfit.rule == "missing":
        return f"{misfit.path!r} is missing{misfit.reading}."
    if _is_sensitive(misfit, interface) and not misfit.is_plain:
        return f"{misfit.path!r} does not fit its type{misfit.reading}."
    words = misfit.words.removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    words = words.replace("valid dictionary", "valid object").replace("valid tuple", "valid array")
    joint = " " if words.startswith("should ") else ": "
    return f"{misfit.path!r}{joint}{words}{misfit.reading}."


def _is_sensitive(misfit: Misfit, interface: ToolInterface) -> bool:
    """Whether anything under the same parameter is sensitive; its words might quote a neighbour."""
    return any(found.path[0] == misfit.place[0] for found in interface.input_sensitive_fields)


def _about_unknown(misfit: Misfit, interface: ToolInterface) -> str:
    name = misfit.path
    if len(misfit.place) > 1:
        return f"{name!r} is not known{misfit.reading}. Leave it out."
    if any(each.name == name for each in interface.injected):
        return f"{name!r} is filled in by the application. Leave it out."
    known = [each.name for each in interface.parameters]
    from difflib import get_close_matches  # noqa: PLC0415 - only for the words of an error

    near = get_close_matches(name, known, n=1)
    if near:
        return f"{name!r} is not a parameter. Did you mean {near[0]!r}?"
    return f"{name!r} is not a parameter. It takes {', '.join(map(repr, known)) or 'none'}."
