"""A table of the in-memory store: entries by tenant and id, in the order they first came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pilotage.errors import AgentDefinitionError

T = TypeVar("T")


class TenantTable(Generic[T]):
    """Keeps what belongs to a tenant apart; asked without a tenant (None) it looks at all of them."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], T] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._tenants: dict[str, list[str]] = {}

    def put(self, tenant: str, entry_id: str, entry: T) -> None:
        """Add an entry, or put it in the place of the one with its id."""
        if (tenant, entry_id) not in self._entries:
            self._tenants.setdefault(entry_id, []).append(tenant)
            self._numbers[tenant, entry_id] = len(self._numbers) + 1
        self._entries[tenant, entry_id] = entry

    def find(self, tenant: str | None, entry_id: str) -> T | None:
        """The entry with this id, or None."""
        home = self.home(entry_id) if tenant is None else tenant
        return None if home is None else self._entries.get((home, entry_id))

    def home(self, entry_id: str) -> str | None:
        """The tenant that has an entry with this id, or None.

        Raises:
            AgentDefinitionError: several tenants have one, so the id alone does not say which is meant.
        """
        match self._tenants.get(entry_id, []):
            case []:
                return None
            case [tenant]:
                return tenant
            case tenants:
                raise AgentDefinitionError(
                    f"the id {entry_id!r} exists for several tenants ({', '.join(map(repr, tenants))}). "
                    "Use a repository of one tenant: MemoryStateRepository(store, tenant=...)."
                )

    def entries(self, tenant: str | None) -> Iterator[T]:
        """The entries of a tenant, or of all, in the order they first came."""
        return (entry for (owner, _), entry in self._entries.items() if tenant in (None, owner))

    def drop(self, tenant: str, entry_id: str) -> None:
        """Remove an entry; the numbers of the others stay."""
        if self._entries.pop((tenant, entry_id), None) is not None:
            self._tenants[entry_id].remove(tenant)

    def remove(self, tenant: str, is_meant: Callable[[T], bool]) -> None:
        """Remove the entries of a tenant that are meant."""
        for owner, entry_id in [key for key, entry in self._entries.items() if is_meant(entry)]:
            if owner == tenant:
                self.drop(owner, entry_id)

    def newest_first(self, tenant: str, before: int | None = None) -> Iterator[tuple[int, T]]:
        """The entries of a tenant, last come first, each with the number it got when it came; or those before one."""
        for key in reversed(self._entries):
            number = self._numbers[key]
            if key[0] == tenant and (before is None or number < before):
                yield number, self._entries[key]
