"""What a stream took that did not come to its end: what the model told of it, the rest by estimate. Pure.

Nobody says how many tokens a reply took that was left, or broke off. Counting nothing would let a run that leaves
every stream early go on for ever, so what is not known is estimated, and the record says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.compaction.estimate import BYTE_ESTIMATOR, fixed_tokens, message_tokens
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.values import value

ESTIMATED = "usage_estimated"
"""The key in the metadata of a recorded reply that says: nobody reported these numbers."""


@value
class ToldUsage:
    """What a model told in the middle of a stream, and how many pieces had come by then."""

    usage: ModelUsage
    pieces: int


@value
class LeftUsage:
    """What a stream took as far as it was read; `is_estimated` where the model did not tell all of it."""

    usage: ModelUsage
    is_estimated: bool


def expected_usage(request: ModelRequest) -> ModelUsage:
    """What a request is thought to take before it is sent: itself, and as much of an answer as it allows."""
    read, answer = _asked(request), request.sampling.max_tokens or 0
    return ModelUsage(read, answer, read + answer)


def usage_of_left(request: ModelRequest, pieces: Sequence[str], told: ToldUsage | None) -> LeftUsage:
    """What a request and the pieces that were read of its reply took; what was told last is behind its own pieces."""
    known = told.usage if told is not None else ModelUsage()
    tells_output = known.output_tokens is not None or known.total_tokens is not None
    unheard = "".join(pieces[told.pieces if told is not None and tells_output else 0 :])
    output = (known.output_tokens or 0) + BYTE_ESTIMATOR.tokens_of(unheard)
    if known.total_tokens is not None and known.input_tokens is None:
        total = known.total_tokens + BYTE_ESTIMATOR.tokens_of(unheard)
        return LeftUsage(ModelUsage(None, None, total), bool(unheard))
    read = known.input_tokens if known.input_tokens is not None else _asked(request)
    is_known = known.input_tokens is not None and known.output_tokens is not None and not unheard
    return LeftUsage(ModelUsage(read, output, read + output), not is_known)


def _asked(request: ModelRequest) -> int:
    return sum(map(message_tokens, request.messages)) + fixed_tokens(request)
