"""The port of reports about costs, the charges that rows of runs store, and their sums.

A charge is one reply of a model that was paid for: its counts and its price, with currency and version of the price
list. It is stored in the row of the call, so it counts once, whatever crashes. A charge without a cost has no known
price: it adds to `unpriced` and never counts as zero. Sums of several currencies are kept apart. Pure but for the port.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import cast

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import ModelCost
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.values import value


class CostRole(StrEnum):
    """What a charge was paid for: the reply, a try that was discarded, another model before it, or a summary."""

    REPLY = "reply"
    RETRY = "retry"
    FALLBACK = "fallback"
    COMPACTION = "compaction"


@value
class ModelCharge:
    """One paid reply. `is_estimated` where the server did not report the counts.

    `tool` is the tool inside of which the model was called, `version` that of the agent.
    """

    model: str
    role: CostRole
    usage: ModelUsage
    cost: ModelCost | None = None
    is_estimated: bool = False
    tool: str | None = None
    version: int = 1


def amount_text(amount: Decimal) -> str:
    """Return an amount as text: all of its digits, and no zeros after the last one."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def charges_text(charges: Iterable[ModelCharge]) -> str:
    """Return charges as a row stores them, empty without any: lists, whose trailing fields may be missing."""
    stored = [_stored(each) for each in charges]
    return canonical_json(stored) if stored else ""


def _stored(charge: ModelCharge) -> list[JsonValue]:
    usage, cost = charge.usage, charge.cost
    fields: list[JsonValue] = [
        _plain(charge.model),
        charge.role.value,
        usage.total_tokens,
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.cache_written_tokens,
        usage.reasoning_tokens,
        1 if charge.is_estimated else None,
        None if cost is None else amount_text(cost.amount),
        None if cost is None else _plain(cost.currency),
        None if cost is None else _plain(cost.pricing_version),
        None if charge.tool is None else _plain(charge.tool),
        None if charge.version == 1 else charge.version,
    ]
    while fields[-1] is None:
        fields.pop()
    return fields


_FIELDS = 14


def _plain(name: str) -> str:
    """Return a name with the characters that no database refuses: views of databases read the text too."""
    return (
        name
        if name.isascii() and name.isprintable()
        else "".join(c if c.isprintable() else "?" for c in name)
    )


def charges_in(text: str) -> tuple[ModelCharge, ...]:
    """Return the charges of a row.

    Raises:
        ValueError: the text is not one that `charges_text` wrote.
    """
    if not text:
        return ()
    try:
        return tuple(map(_read, _listed(json.loads(text))))
    except (TypeError, ValueError, LookupError, InvalidOperation, AttributeError, RecursionError) as error:
        raise ValueError(f"{text[:80]!r} says nothing about costs") from error


def _listed(found: object) -> list[object]:
    if not isinstance(found, list):
        raise TypeError("charges, and each of them, are lists")
    return cast("list[object]", found)


def _read(fields: object) -> ModelCharge:
    known = _listed(fields)
    if len(known) > _FIELDS:
        raise ValueError("a charge has more fields than this version knows")
    given = [*known, *[None] * (_FIELDS - len(known))]
    (
        model,
        role,
        total,
        read,
        written,
        cached,
        stored,
        thought,
        estimated,
        amount,
        currency,
        prices,
        tool,
        version,
    ) = given
    usage = ModelUsage(
        _count(read),
        _count(written),
        _count(total),
        cached_tokens=_count(cached),
        cache_written_tokens=_count(stored),
        reasoning_tokens=_count(thought),
    )
    cost = None if amount is None else ModelCost(Decimal(_text(amount)), _text(currency), _text(prices))
    return ModelCharge(
        _text(model),
        CostRole(_text(role)),
        usage,
        cost,
        is_estimated=estimated == 1,
        tool=None if tool is None else _text(tool),
        version=_count(version) or 1,
    )


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError("a name or an amount is a text")
    return found


def _count(found: object) -> int | None:
    if found is not None and type(found) is not int:
        raise TypeError("a count is a whole number")
    return found


@value
class CostEntry:
    """A charge with the run that it belongs to; `tree_id` is the first run of the tree."""

    tenant_id: str
    run_id: str
    tree_id: str
    agent: str
    at: datetime
    charge: ModelCharge
    conversation: str | None = None


class CostField(StrEnum):
    """What costs are grouped by. A day is one of the calendar in UTC."""

    TENANT = "tenant"
    AGENT = "agent"
    VERSION = "version"
    MODEL = "model"
    TOOL = "tool"
    CONVERSATION = "conversation"
    RUN = "run"
    TREE = "tree"
    DAY = "day"
    ROLE = "role"
    PRICES = "prices"


_READERS: Mapping[CostField, Callable[[CostEntry], str | None]] = {
    CostField.TENANT: lambda entry: entry.tenant_id,
    CostField.AGENT: lambda entry: entry.agent,
    CostField.VERSION: lambda entry: str(entry.charge.version),
    CostField.MODEL: lambda entry: entry.charge.model,
    CostField.TOOL: lambda entry: entry.charge.tool,
    CostField.CONVERSATION: lambda entry: entry.conversation,
    CostField.RUN: lambda entry: entry.run_id,
    CostField.TREE: lambda entry: entry.tree_id,
    CostField.DAY: lambda entry: entry.at.astimezone(UTC).date().isoformat(),
    CostField.ROLE: lambda entry: entry.charge.role.value,
    CostField.PRICES: lambda entry: (
        entry.charge.cost.pricing_version if entry.charge.cost is not None else None
    ),
}


@value
class CostSum:
    """The sum of the charges of a group: `amounts` by currency, `unpriced` the number of charges without a price.

    Counts that servers did not report are not in the tokens.
    """

    group: Mapping[str, str | None]
    charges: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_tokens: int
    cache_written_tokens: int
    reasoning_tokens: int
    amounts: Mapping[str, Decimal]
    unpriced: int
    estimated: int

    def to_payload(self) -> JsonObject:
        """Return the sum as JSON; amounts are texts, because floats would round them."""
        amounts: dict[str, JsonValue] = {name: amount_text(each) for name, each in self.amounts.items()}
        counts = {name: getattr(self, name) for name in _COUNTED}
        return {"group": dict(self.group), "amounts": amounts, **counts}


_COUNTED = (
    *("charges", "unpriced", "estimated", "input_tokens", "output_tokens", "total_tokens"),
    *("cached_tokens", "cache_written_tokens", "reasoning_tokens"),
)


def cost_sums(entries: Iterable[CostEntry], by: Sequence[CostField] = ()) -> tuple[CostSum, ...]:
    """Return the sums of the groups, ordered by their names; without fields that of all charges."""
    groups: dict[tuple[str | None, ...], list[CostEntry]] = {}
    for entry in entries:
        groups.setdefault(tuple(_READERS[each](entry) for each in by), []).append(entry)
    named = sorted(groups, key=lambda group: [(name is not None, name or "") for name in group])
    return tuple(
        _sum({field.value: name for field, name in zip(by, group, strict=True)}, groups[group])
        for group in named
    )


def _sum(group: Mapping[str, str | None], entries: Sequence[CostEntry]) -> CostSum:
    usage, amounts = ModelUsage(0, 0, 0), dict[str, Decimal]()
    for entry in entries:
        usage = usage.plus(entry.charge.usage)
        if (cost := entry.charge.cost) is not None:
            amounts[cost.currency] = amounts.get(cost.currency, Decimal(0)) + cost.amount
    return CostSum(
        group,
        len(entries),
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        cached_tokens=usage.cached_tokens or 0,
        cache_written_tokens=usage.cache_written_tokens or 0,
        reasoning_tokens=usage.reasoning_tokens or 0,
        amounts=dict(sorted(amounts.items())),
        unpriced=sum(entry.charge.cost is None for entry in entries),
        estimated=sum(entry.charge.is_estimated for entry in entries),
    )


class IAgentCosts(ABC):
    """Reads the charges of a tenant's durable runs. A store that provides none is read run by run."""

    @abstractmethod
    def entries(
        self, tenant_id: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> AsyncIterator[CostEntry]:
        """Yield the charges of rows written at `since` or later and before `until`, in any order.

        Raises:
            OSError: the store cannot be reached.
            DamagedEntryError: a row has costs that cannot be read.
        """
