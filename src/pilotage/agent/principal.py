"""The principal of a run, and the context that its tools and hooks may read.

`RunContext` travels in a context variable: set by the runtime, inherited by workers, read anywhere below.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field

from pilotage.agent.delegation import DelegationPacket
from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value

DEFAULT_TENANT = "default"


@value
class Principal:
    """A person or program that starts, answers or reads runs: its id, tenant and permissions."""

    id: str
    tenant: str = DEFAULT_TENANT
    permissions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, tenant=self.tenant)
        object.__setattr__(self, "permissions", frozenset(self.permissions))


LOCAL = Principal("local")
"""The application itself, where no other principal is given."""


@value
class RunContext:
    """Tenant, user, conversation and run of the code that asks; `session_id` is the conversation.

    `delegation` is the packet that a run was delegated in; its task is the input of the run.
    """

    tenant_id: str = DEFAULT_TENANT
    user_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    delegation: DelegationPacket | None = None


_no_run = shared(RunContext)
_current: ContextVar[RunContext | None] = ContextVar("pilotage_run_context", default=None)


def get_run_context() -> RunContext:
    """Return the context of the run this code belongs to; outside a run an empty one."""
    return _current.get() or _no_run()


def enter_run_context(context: RunContext) -> None:
    """Make `context` the current one of this task, to its end."""
    _current.set(context)


@contextmanager
def run_context(context: RunContext) -> Generator[None, None, None]:
    """Make `context` the current one for the block; what is started inside inherits it."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
