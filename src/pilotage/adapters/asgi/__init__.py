"""What adapters that answer over HTTP and WebSockets share: who asks, how much they send, answers that last."""

from pilotage.adapters.asgi.admission import Admission, OriginRefusedError
from pilotage.adapters.asgi.bodies import BodyTooLargeError, bounded_body
from pilotage.adapters.asgi.common_end import CommonEnd, ServerStoppingError
from pilotage.adapters.asgi.lasting_answer import Heartbeat, LastingAnswer, OpenStreams, TooManyStreamsError
from pilotage.adapters.asgi.problems import problem_answer

__all__ = [
    "Admission",
    "BodyTooLargeError",
    "CommonEnd",
    "Heartbeat",
    "LastingAnswer",
    "OpenStreams",
    "OriginRefusedError",
    "ServerStoppingError",
    "TooManyStreamsError",
    "bounded_body",
    "problem_answer",
]
