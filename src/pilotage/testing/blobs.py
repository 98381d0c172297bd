"""The bytes of media in memory: `MemoryBlobs`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from pilotage.agent.ports.blobs import IBlobs, StoredBlob
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_naive
from pilotage.errors import MediaNotFoundError
from pilotage.testing.tables import OverTables


class MemoryBlobs(OverTables, IBlobs):
    """Media over the tables of a store: `MemoryBlobs(store.tables)`."""

    async def put(
        self, tenant_id: str, digest: str, blob: StoredBlob, *, held_by: RunKey | None = None
    ) -> None:
        tables = self._tables.media
        tables.contents.setdefault((tenant_id, digest), blob)
        tables.touched[tenant_id, digest] = self._tables.clock.now()
        if held_by is not None:
            tables.uses.setdefault(held_by, set()).add(digest)

    async def hold(self, run: RunKey, digests: Collection[str]) -> None:
        tables = self._tables.media
        for digest in digests:
            if (run.tenant_id, digest) not in tables.contents:
                raise MediaNotFoundError(f"there are no media {digest[:12]!r}.")
        if not digests:
            return
        for digest in digests:
            tables.touched[run.tenant_id, digest] = self._tables.clock.now()
        tables.uses.setdefault(run, set()).update(digests)

    async def get(self, tenant_id: str, digest: str) -> StoredBlob:
        found = self._tables.media.contents.get((tenant_id, digest))
        if found is None:
            raise MediaNotFoundError(f"there are no media {digest[:12]!r}.")
        return found

    async def held(self, run: RunKey) -> frozenset[str]:
        return frozenset(self._tables.media.uses.get(run, ()))

    async def release(self, run: RunKey) -> None:
        self._tables.media.release(run)

    async def prune(self, tenant_id: str, *, unused_since: datetime) -> int:
        reject_naive("MemoryBlobs.prune", unused_since=unused_since)
        tables = self._tables.media
        for run in [each for each in tables.uses if each.tenant_id == tenant_id]:
            is_known = self._tables.journals.find(run.tenant_id, run.run_id) is not None
            if not is_known and tables.last_touched(run) < unused_since:
                tables.uses.pop(run)
        return tables.remove_unused(
            (tenant, digest)
            for (tenant, digest), touched in list(tables.touched.items())
            if tenant == tenant_id and touched < unused_since
        )
