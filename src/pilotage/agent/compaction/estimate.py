"""How many tokens something is thought to take: cheap, deterministic, the same on every machine.

Pure. An estimate decides when a context is condensed, so replay must come to the same number: an estimator
looks at the text and at nothing else.
"""

from __future__ import annotations

from math import ceil
from typing import Protocol

from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.checks import reject_not_positive
from pilotage.jsonvalue import canonical_json, to_bytes
from pilotage.values import value

_TOKENS_OF_A_FRAME = 4
"""What a server writes around every message: who speaks, where it begins and ends."""
_TOKENS_OF_MEDIA = 1_000
"""A picture is charged by its area, not by its bytes; this is a middle-sized one."""


class TokenEstimator(Protocol):
    """Counts or guesses the tokens of a text. The same text always has the same number."""

    def tokens_of(self, text: str) -> int:
        """How many tokens the text takes."""
        ...


@value
class ByteEstimator:
    """Guesses by the length in UTF-8: texts in other scripts take more bytes, and more tokens too."""

    bytes_per_token: float = 4.0

    def __post_init__(self) -> None:
        reject_not_positive(self, bytes_per_token=self.bytes_per_token)

    def tokens_of(self, text: str) -> int:
        size = len(text) if text.isascii() else len(to_bytes(text))
        return ceil(size / self.bytes_per_token)


BYTE_ESTIMATOR = ByteEstimator()


def message_tokens(message: ModelMessage, estimator: TokenEstimator = BYTE_ESTIMATOR) -> int:
    """What one message takes: its text, its tool calls, its media and the frame around it."""
    tokens = _TOKENS_OF_A_FRAME + estimator.tokens_of(message.text)
    for call in message.tool_calls:
        tokens += _TOKENS_OF_A_FRAME + estimator.tokens_of(call.name)
        tokens += estimator.tokens_of(canonical_json(call.arguments))
    if not isinstance(message.content, str):
        tokens += _TOKENS_OF_MEDIA * sum(isinstance(part, MediaPart) for part in message.content)
    return tokens


def fixed_tokens(request: ModelRequest, estimator: TokenEstimator = BYTE_ESTIMATOR) -> int:
    """What a request takes beside its messages: the tools on offer and the shape of the answer.

    Every request of an agent carries the same ones, so this is asked once for an agent and not per call.
    """
    texts = [canonical_json(request.structured_output.constraint.schema)] if request.structured_output else []
    for tool in request.tool_calling.tools if request.tool_calling else ():
        texts += [tool.name, tool.description or "", canonical_json(tool.parameters.schema)]
    return sum(estimator.tokens_of(text) for text in texts)
