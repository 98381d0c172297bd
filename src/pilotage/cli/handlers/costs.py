"""`pilotage costs`: what the durable runs of a tenant were charged for, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pilotage.agent.ports.costs import CostField, CostSum, amount_text
from pilotage.cli.application import Session
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.text import Line, TextSpan, Tone, columns, line, one_line

_NOTHING = "-"


async def show_costs(
    session: Session,
    by: Sequence[CostField],
    since: datetime | timedelta | None,
    until: datetime | timedelta | None,
) -> int:
    """Show the sums, one line for each group, and that of all where there are several."""
    now = session.runs.services.clock.now()
    given = [now - each if isinstance(each, timedelta) else each for each in (since, until)]

    async def sums(fields: Sequence[CostField]) -> tuple[CostSum, ...]:
        return await session.runs.costs(
            by=fields, since=given[0], until=given[1], principal=session.principal
        )

    found = await sums(by)
    whole = await sums(()) if len(found) > 1 else ()
    session.screen.answer(
        {"sums": [each.to_payload() for each in found]},
        *cost_lines(by, found, whole, session.screen.width),
        as_json=session.options.as_json,
    )
    return ExitCode.DONE


def cost_lines(
    by: Sequence[CostField], found: Sequence[CostSum], whole: Sequence[CostSum], room: int | None
) -> list[Line]:
    """Return one line for each sum. An unknown price is no zero: the charges without one have a column."""
    if not found:
        return [line(TextSpan("no model calls", Tone.QUIET))]
    headings = [
        *(field.value.upper() for field in by),
        "CALLS",
        "TOKENS",
        "CACHED",
        "COST",
        "WITHOUT A PRICE",
    ]
    table = [[TextSpan(each, Tone.STRONG) for each in headings]]
    table += [_row([each.group[field.value] for field in by], each) for each in found]
    if by:
        table += [_row(["total", *[""] * (len(by) - 1)], each) for each in whole]
    return columns(table, room)


def _row(names: Sequence[str | None], each: CostSum) -> list[TextSpan]:
    amounts = ", ".join(f"{amount_text(amount)} {currency}" for currency, amount in each.amounts.items())
    counts = (each.charges, each.total_tokens, each.cached_tokens)
    return [
        *(TextSpan(one_line(_NOTHING if name is None else name), Tone.NAME) for name in names),
        *(TextSpan(str(count)) for count in counts),
        TextSpan(amounts or "unknown", Tone.GOOD if amounts else Tone.BAD),
        TextSpan(str(each.unpriced) if each.unpriced else "", Tone.BAD),
    ]
