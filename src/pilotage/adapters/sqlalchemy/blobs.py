"""`SqlAlchemyBlobs`: the bytes of media, in the database or in files of a folder beside it.

The rows say what there is, and which runs hold it; with a folder, the bytes are in files that the rows stand for. A
file is written before its row and removed before its row, in the same transaction: an erasure leaves no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from pilotage.adapters.sqlalchemy.blob_files import BlobFiles
from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.statements import in_keys, of_run, place_of
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.adapters.sqlalchemy.tables import media, media_uses, runs
from pilotage.agent.ports.blobs import IBlobs, StoredBlob
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_naive
from pilotage.errors import MediaNotFoundError

_IS_ONE = (media.c.tenant_id == bindparam("tenant"), media.c.digest == bindparam("digest_of"))
_ARE_THESE = in_keys(media, "tenant_id", "digest")
_IS_USED = exists().where(media_uses.c.tenant_id == media.c.tenant_id, media_uses.c.digest == media.c.digest)

_TOUCH = update(media).where(*_IS_ONE).values(touched_at=now())
_TOUCH_THESE = update(media).where(_ARE_THESE).values(touched_at=now())
_GET = select(media.c.content, media.c.key_id).where(*_IS_ONE)
_HELD = select(media_uses.c.digest).where(*of_run(media_uses))
_USES_OF_RUNS = select(media_uses.c.tenant_id, media_uses.c.digest).where(
    in_keys(media_uses, "tenant_id", "run_id")
)
_END_USES = delete(media_uses).where(in_keys(media_uses, "tenant_id", "run_id"))
_LOCK = (
    select(media.c.tenant_id, media.c.digest)
    .where(_ARE_THESE)
    .order_by(media.c.tenant_id, media.c.digest)
    .with_for_update()
)
_UNUSED_OF_THESE = select(media.c.tenant_id, media.c.digest).where(_ARE_THESE, ~_IS_USED)
_UNUSED_SINCE = (
    select(media.c.tenant_id, media.c.digest)
    .where(
        media.c.tenant_id == bindparam("tenant"),
        media.c.touched_at < bindparam("before", type_=media.c.touched_at.type),
        ~_IS_USED,
    )
    .order_by(media.c.tenant_id, media.c.digest)
    .limit(100)
    .with_for_update(of=media)
)
_HAS_RUN = exists().where(runs.c.tenant_id == media_uses.c.tenant_id, runs.c.run_id == media_uses.c.run_id)
_IS_OLD = exists().where(
    media.c.tenant_id == media_uses.c.tenant_id,
    media.c.digest == media_uses.c.digest,
    media.c.touched_at < bindparam("before", type_=media.c.touched_at.type),
)
# A process that died before the first commit of its run.
_END_USES_WITHOUT_RUN = delete(media_uses).where(
    media_uses.c.tenant_id == bindparam("tenant"), ~_HAS_RUN, _IS_OLD
)
_REMOVE = delete(media).where(_ARE_THESE)
_ALL_OF_TENANT = select(media.c.digest).where(media.c.tenant_id == bindparam("tenant"))

_Keys = Sequence[tuple[str, str]]


class SqlAlchemyBlobs(IBlobs):
    """The bytes of media in a database; in files of a folder, where the settings name one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = files_of(database)

    async def put(
        self, tenant_id: str, digest: str, blob: StoredBlob, *, held_by: RunKey | None = None
    ) -> None:
        work = partial(_put, self._files, (tenant_id, digest), blob, held_by)
        await self._database.write(work, may_be_repeated=True)

    async def hold(self, run: RunKey, digests: Collection[str]) -> None:
        if wanted := sorted(set(digests)):
            await self._database.write(partial(_hold, run, wanted), may_be_repeated=True)

    async def get(self, tenant_id: str, digest: str) -> StoredBlob:
        found = await self._database.read(partial(_get, self._files, tenant_id, digest))
        if found is None:
            raise not_found(digest)
        return found

    async def held(self, run: RunKey) -> frozenset[str]:
        return frozenset(await self._database.rows(_HELD, place_of(run), lambda row: str(row["digest"])))

    async def release(self, run: RunKey) -> None:
        work = partial(release_runs, self._files, [(run.tenant_id, run.run_id)])
        await self._database.write(work, may_be_repeated=True)

    async def prune(self, tenant_id: str, *, unused_since: datetime) -> int:
        reject_naive("SqlAlchemyBlobs.prune", unused_since=unused_since)
        return await prune_unused(self._database, tenant_id, unused_since)


def not_found(digest: str) -> MediaNotFoundError:
    """Return the error of media that a tenant does not have."""
    return MediaNotFoundError(f"there are no media {digest[:12]!r}.")


def files_of(database: Database) -> BlobFiles | None:
    """Return the files with the bytes of media; None where they are in the database."""
    folder = database.settings.blobs_folder
    return None if folder is None else BlobFiles(Path(folder))


async def prune_unused(database: Database, tenant: str, unused_since: datetime) -> int:
    """Remove what no run holds and nothing has put or held since a moment, and return how many."""
    files, removed = files_of(database), 0
    while found := await database.write(partial(_prune, files, tenant, unused_since)):
        removed += found
    if files is not None:
        await database.write(partial(_sweep, files, tenant))
    return removed


def release_runs(files: BlobFiles | None, keys: _Keys, connection: Connection) -> None:
    """End the holding of runs, and remove what no run holds any more."""
    held = _pairs(connection.execute(_USES_OF_RUNS, {"keys": keys}))
    if not held:
        return
    # Locked first: a run that begins to hold one of them waits, and finds it gone or stays its holder.
    connection.execute(_LOCK, {"keys": held})
    connection.execute(_END_USES, {"keys": keys})
    _remove(files, _pairs(connection.execute(_UNUSED_OF_THESE, {"keys": held})), connection)


def _put(
    files: BlobFiles | None,
    key: tuple[str, str],
    blob: StoredBlob,
    held_by: RunKey | None,
    connection: Connection,
) -> None:
    tenant, digest = key
    is_there = connection.execute(_TOUCH, {"tenant": tenant, "digest_of": digest}).rowcount == 1
    if files is not None and not (is_there and files.has(tenant, digest)):
        files.write(tenant, digest, blob)
    if not is_there:
        stored: dict[str, Any] = {"tenant_id": tenant, "digest": digest, "key_id": blob.key_id}
        content = blob.content if files is None else None
        made = dialect_of(connection.dialect.name).insert(media)
        made = made.values(**stored, content=content, touched_at=now())
        connection.execute(
            made.on_conflict_do_update(index_elements=["tenant_id", "digest"], set_={"touched_at": now()})
        )
    if held_by is not None:
        _use(connection, held_by, [digest])


def _hold(run: RunKey, digests: Sequence[str], connection: Connection) -> None:
    keys = [(run.tenant_id, digest) for digest in digests]
    if connection.execute(_TOUCH_THESE, {"keys": keys}).rowcount != len(keys):
        there = {digest for _, digest in _pairs(connection.execute(_LOCK, {"keys": keys}))}
        raise not_found(next(each for each in digests if each not in there))
    _use(connection, run, digests)


def _use(connection: Connection, run: RunKey, digests: Iterable[str]) -> None:
    made = dialect_of(connection.dialect.name).insert(media_uses)
    rows = [{"tenant_id": run.tenant_id, "run_id": run.run_id, "digest": digest} for digest in digests]
    connection.execute(made.on_conflict_do_nothing(), rows)


def _get(files: BlobFiles | None, tenant: str, digest: str, connection: Connection) -> StoredBlob | None:
    found = connection.execute(_GET, {"tenant": tenant, "digest_of": digest}).first()
    if found is None:
        return None
    if found.content is not None:
        return StoredBlob(bytes(found.content), found.key_id)
    return None if files is None else files.read(tenant, digest)


def _prune(files: BlobFiles | None, tenant: str, before: datetime, connection: Connection) -> int:
    given = {"tenant": tenant, "before": before}
    connection.execute(_END_USES_WITHOUT_RUN, given)
    found = _pairs(connection.execute(_UNUSED_SINCE, given))
    _remove(files, found, connection)
    return len(found)


def _sweep(files: BlobFiles, tenant: str, connection: Connection) -> None:
    """Remove files that a crash has left without their rows."""
    known = {str(row.digest) for row in connection.execute(_ALL_OF_TENANT, {"tenant": tenant})}
    files.sweep(tenant, known)


def _remove(files: BlobFiles | None, keys: _Keys, connection: Connection) -> None:
    if not keys:
        return
    if files is not None:
        for tenant, digest in keys:
            files.remove(tenant, digest)
    connection.execute(_REMOVE, {"keys": keys})


def _pairs(found: Iterable[Any]) -> list[tuple[str, str]]:
    return [(row.tenant_id, row.digest) for row in found]
