"""The scopes of a run, the domains whose outcomes share an order, and the tasks that were seen in them. Pure."""

from __future__ import annotations

from pilotage.runtime.journal.positions import TASK, Call, CallScope, CallState, Domain, Record

_NO_CALLS: dict[int, Call] = {}


class Domains:
    """Opens the scopes of one attempt over its record, and counts the tasks besides their owners."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._tasks = 0

    def open_scope(self, path: str, owner: object, around: Call | None = None) -> CallScope:
        """Return a scope with an order of its own: of the run, of a call that makes calls, of a `gather` branch."""
        record = self._record
        if around is not None:
            around.has_made = True
        order = [call for call in record.orders.get(path, ()) if call.state is CallState.EXPECTED]
        domain = Domain(owner, around, order)
        return CallScope(path, domain, record.scopes.get(path, _NO_CALLS), record.skipped.get(path, ()))

    def branch(self, scope: CallScope, name: str) -> CallScope:
        """Return the scope of a task that is not the owner; `name` is label and fingerprint of its first call."""
        occurrence = scope.branches[name] = scope.branches.get(name, 0) + 1
        return self.beside(scope, f"{scope.path}/{TASK}{name}#{occurrence}")

    def beside(self, scope: CallScope, path: str) -> CallScope:
        """Return a scope that shares its order with another one: an implicit branch of it."""
        record = self._record
        return CallScope(path, scope.domain, record.scopes.get(path, _NO_CALLS), record.skipped.get(path, ()))

    def see(self, domain: Domain, task: object) -> bool:
        """Take in that a task makes or awaits a call; return whether it is a new one, whose end must be reported."""
        if task is domain.owner or task in domain.others:
            return False
        domain.others.add(task)
        domain.epoch += 1
        self._tasks += 1
        return True

    def task_ended(self, domain: Domain, task: object) -> None:
        """Take in that a task has ended."""
        domain.others.discard(task)
        domain.moves += 1
        self._tasks -= 1
