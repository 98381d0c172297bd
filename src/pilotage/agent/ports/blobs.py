"""The ports of media: `IBlobs` stores their bytes, `IMediaSource` fetches them from addresses.

Rows, messages and views of a run have the digest of media. The bytes are stored once per tenant under that digest, and
each run that has the digest in its rows holds them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import field
from datetime import datetime

from pilotage.agent.ports.persistence import RunKey
from pilotage.container.pod import provided_by
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.values import value


@value
class StoredBlob:
    """The stored bytes of media: as they are, or sealed with the key of this id."""

    content: bytes = field(repr=False)
    key_id: str | None = None


@provided_by("pilotage[sqlalchemy]", family=AgentPersistenceConfigurationError)
class IBlobs(ABC):
    """Stores the bytes of media under digests that the runtime computes and checks.

    Every adapter guarantees: bytes come back unchanged, on return they are durable, and nothing of a tenant is found
    from another one. Bytes that a run holds stay until that run is released, by `release` or by the retention of the
    same store, whatever other runs do at the same time; bytes that no run holds any more go with the last release.
    Bytes that no run has held yet, such as uploads, stay until `prune`.
    """

    @abstractmethod
    async def put(
        self, tenant_id: str, digest: str, blob: StoredBlob, *, held_by: RunKey | None = None
    ) -> None:
        """Store bytes under a digest unless the tenant has it already, and let a run of the tenant hold them."""

    @abstractmethod
    async def hold(self, run: RunKey, digests: Collection[str]) -> None:
        """Let a run hold bytes that its tenant has: all of them, or none.

        Raises:
            MediaNotFoundError: the tenant does not have one of them.
        """

    @abstractmethod
    async def get(self, tenant_id: str, digest: str) -> StoredBlob:
        """Return the bytes of a tenant under a digest.

        Raises:
            MediaNotFoundError: the tenant does not have them.
        """

    @abstractmethod
    async def held(self, run: RunKey) -> frozenset[str]:
        """Return the digests that a run holds."""

    @abstractmethod
    async def release(self, run: RunKey) -> None:
        """End the holding of a run; what no run holds any more is removed for good."""

    @abstractmethod
    async def prune(self, tenant_id: str, *, unused_since: datetime) -> int:
        """Remove what no run holds and was neither put nor held since a moment, and return how many.

        Raises:
            AgentDefinitionError: the moment has no time zone.
        """


class IMediaSource(ABC):
    """Fetches media from the addresses in messages, before a run begins or records a tool's result.

    An adapter decides which addresses it connects to: they come from users, models and tools.
    """

    @abstractmethod
    async def fetch(self, url: str, most_bytes: int) -> bytes:
        """Return the bytes at an address.

        Raises:
            MediaRefusedError: the address is not allowed, has no such bytes, or more of them.
        """
