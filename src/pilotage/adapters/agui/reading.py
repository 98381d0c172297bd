"""From the text of an AG-UI input to the input itself, within bounds. Pure.

What clients send is hostile: it is bounded before it is understood, and a refusal repeats nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ag_ui.core import RunAgentInput
from pydantic import ValidationError
from pydantic_core import from_json

from pilotage.adapters.agui.errors import AgUiInputTooLargeError, AgUiRunResolutionError
from pilotage.adapters.agui.settings import AgUiLimits

_SHOWN_PROBLEMS = 3
_LONGEST_ID = 255
_USUAL = AgUiLimits()


def parse_input(text: str | bytes, limits: AgUiLimits = _USUAL) -> RunAgentInput:
    """The AG-UI input in a JSON text.

    Raises:
        AgUiInputTooLargeError: the text is longer than the limits allow.
        AgUiRunResolutionError: it is none; the message names the fields that are wrong, and nothing of their content.
    """
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.max_body_bytes:
        raise AgUiInputTooLargeError(
            f"the input is longer than {limits.max_body_bytes:,} bytes, which is what this server takes."
        )
    try:
        # Numbers that are none, and halves of surrogate pairs, are no JSON to this reader.
        decoded: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise AgUiRunResolutionError(
            f"the body is no RunAgentInput: the text: Invalid JSON: {error}."
        ) from None
    _refuse_depth(decoded, limits.max_depth)
    try:
        ag_ui_input = RunAgentInput.model_validate(decoded)
    except ValidationError as error:
        raise _refused(error) from None
    _refuse_wrong_ids(ag_ui_input)
    return ag_ui_input


def _refused(error: ValidationError) -> AgUiRunResolutionError:
    found = [f"{'.'.join(map(str, e['loc'])) or 'the text'}: {e['msg']}" for e in error.errors()]
    more = f" (and {len(found) - _SHOWN_PROBLEMS} more)" if len(found) > _SHOWN_PROBLEMS else ""
    words = "; ".join(found[:_SHOWN_PROBLEMS])
    return AgUiRunResolutionError(f"the body is no RunAgentInput: {words}{more}.")


def _refuse_depth(decoded: Any, deepest: int) -> None:
    level: list[Any] = [decoded]
    for _ in range(deepest):
        if not level:
            return
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise AgUiRunResolutionError(f"the input is nested more than {deepest} levels deep. Send less of it.")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _refuse_wrong_ids(ag_ui_input: RunAgentInput) -> None:
    ids = {
        "runId": ag_ui_input.run_id,
        "threadId": ag_ui_input.thread_id,
        "parentRunId": ag_ui_input.parent_run_id,
    }
    for name, text in ids.items():
        # Not every database keeps a null character.
        if text is not None and (len(text) > _LONGEST_ID or not text.strip() or "\x00" in text):
            raise AgUiRunResolutionError(
                f"{name} is blank, has a null character or is longer than {_LONGEST_ID} characters. Choose another one."
            )
