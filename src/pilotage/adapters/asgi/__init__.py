"""The HTTP layer of all adapters: authentication, limits, problems, streaming responses, WebSockets, shutdown."""

from pilotage.adapters.asgi.authentication import Authentication
from pilotage.adapters.asgi.lifespan import pilotage_lifespan
from pilotage.adapters.asgi.middleware import HttpMiddleware, bounded_body
from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.asgi.streaming import Heartbeat, StreamFormat, StreamingResponse
from pilotage.adapters.http_settings import HttpSettings
from pilotage.inbound.authentication import BearerTokens, TrustedHeaders
from pilotage.inbound.limits import OpenStreams
from pilotage.inbound.problems import (
    BodyTooLargeError,
    OriginRefusedError,
    RequestRefusedError,
    RunStoreUnreachableError,
    ServerStoppingError,
    TooManyOwnStreamsError,
    TooManyStreamsError,
)

# Earlier names of the same things.
Admission = Authentication
CommonEnd = OpenStreams
LastingAnswer = StreamingResponse
problem_answer = problem_response

__all__ = [
    "Admission",
    "Authentication",
    "BearerTokens",
    "BodyTooLargeError",
    "CommonEnd",
    "Heartbeat",
    "HttpMiddleware",
    "HttpSettings",
    "LastingAnswer",
    "OpenStreams",
    "OriginRefusedError",
    "RequestRefusedError",
    "RunStoreUnreachableError",
    "ServerStoppingError",
    "StreamFormat",
    "StreamingResponse",
    "TooManyOwnStreamsError",
    "TooManyStreamsError",
    "TrustedHeaders",
    "bounded_body",
    "pilotage_lifespan",
    "problem_answer",
    "problem_response",
]
