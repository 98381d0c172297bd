"""Heads of journals, exported and compared later, to find a rolled-back database and a deleted run.

A chain proves that nothing was changed inside of it, not that it is the newest one. Heads that are stored elsewhere
prove that, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pilotage.agent.ports.journal import EntryCount
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentStatus
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.feed import close
from pilotage.runtime.services import Services
from pilotage.values import value

_FIELDS = ("run", "tenant", "seq", "digest")
_COUNT = ("entries", "scope", "changes")


@value
class RunHead:
    """The last row of a run's journal: its number and its digest."""

    run: RunKey
    seq: int
    digest: str

    @property
    def fields(self) -> JsonObject:
        """The head as a line of a file says it."""
        values = (self.run.run_id, self.run.tenant_id, self.seq, self.digest)
        return dict(zip(_FIELDS, values, strict=True))


def count_fields(count: EntryCount) -> JsonObject:
    """Return a count as a line of a file says it."""
    return dict(zip(_COUNT, (count.entries, count.scope, count.changes), strict=True))


def heads_in(lines: Iterable[str]) -> Iterator[RunHead | EntryCount]:
    """Yield the heads and counts in the lines of a file.

    Raises:
        CallerError: a line holds none.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if "entries" in found:
                entries, scope, changes = (found[name] for name in _COUNT)
                yield EntryCount(str(entries), str(scope), int(changes))
                continue
            run_id, tenant, seq, digest = (found[name] for name in _FIELDS)
            yield RunHead(RunKey(tenant, run_id), int(seq), str(digest))
        except (ValueError, LookupError, TypeError, AgentDefinitionError) as error:
            raise CallerError(f"line {number} is no head of a run: {error}.") from error


async def heads_of(services: Services, tenant: str | None = None) -> list[RunHead]:
    """Return the heads of all runs, or of those of a tenant, in the order of tenants and ids."""
    found: list[RunHead] = []
    for status in AgentStatus:
        for state in await services.states.list_by_status(status):
            run = RunKey(state.tenant_id, state.id)
            head = await services.journal.head(run) if tenant in (None, run.tenant_id) else None
            if head is not None:
                found.append(RunHead(run, head.seq, head.digest))
    return sorted(found, key=lambda head: (head.run.tenant_id, head.run.run_id))


async def counts_of(services: Services, tenant: str | None = None) -> list[EntryCount]:
    """Return the counts of entries that stand in no journal, of all tenants or of one."""
    found = await services.journal.entry_counts()
    return [each for each in found if tenant is None or _tenant_of(each) == tenant]


def _tenant_of(count: EntryCount) -> str | None:
    return str(json.loads(count.scope)[0]) if count.scope else None


async def differences(services: Services, heads: Iterable[RunHead | EntryCount]) -> list[str]:
    """Return, in words, the runs whose journals, and the entries whose counts, are not continuations of these."""
    heads = list(heads)
    found = [(head, await _difference(services, head)) for head in heads if isinstance(head, RunHead)]
    lost = [f"run {head.run.run_id!r} of tenant {head.run.tenant_id!r} {how}" for head, how in found if how]
    then = [head for head in heads if isinstance(head, EntryCount)]
    return lost + (lost_counts(await services.journal.entry_counts(), then) if then else [])


def lost_counts(now: Iterable[EntryCount], then: Iterable[EntryCount]) -> list[str]:
    """Return, in words, the counts that are gone or smaller than they were."""
    changes = {(each.entries, each.scope): each.changes for each in now}
    return [
        f"{each.entries} of {each.scope or 'all'} were put back to an earlier state, or deleted with their count"
        for each in then
        if changes.get((each.entries, each.scope), -1) < each.changes
    ]


async def _difference(services: Services, then: RunHead) -> str | None:
    now = await services.journal.head(then.run)
    if now is None:
        return "is gone: it was deleted, or pruned"
    if now.seq < then.seq:
        return f"ends in row {now.seq}, and ended in row {then.seq}: its journal was rolled back"
    if await _digest_at(services, then.run, then.seq) != then.digest:
        return f"has another row {then.seq} than it had: its journal was replaced"
    return None


async def _digest_at(services: Services, run: RunKey, seq: int) -> str | None:
    rows = services.journal.read(run, seq - 1)
    try:
        return (await anext(rows)).digest
    except StopAsyncIteration:
        return None
    finally:
        await close(rows)
