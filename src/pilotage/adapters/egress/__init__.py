"""A guarded HTTP client for tools, limited to allowed hosts: `pip install "pilotage[egress]"`."""

from importlib.util import find_spec

if find_spec("httpx") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[egress]"')

from pilotage.adapters.egress.client import (
    EgressAnswerRefused,
    EgressRefused,
    egress_client,
    guarded_transport,
)
from pilotage.adapters.egress.media import EgressMedia
from pilotage.adapters.egress.policy import EgressPolicy

__all__ = [
    "EgressAnswerRefused",
    "EgressMedia",
    "EgressPolicy",
    "EgressRefused",
    "egress_client",
    "guarded_transport",
]
