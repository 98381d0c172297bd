"""Costs as a table: an unknown price is no zero."""

from __future__ import annotations

from decimal import Decimal

from pilotage.agent.ports.costs import CostField, CostSum
from pilotage.cli.handlers.costs import cost_lines
from pilotage.cli.text import plain


def found(model: str | None, tokens: int, amounts: dict[str, Decimal], unpriced: int = 0) -> CostSum:
    return CostSum({"model": model}, 2, tokens, 0, tokens, 1, 0, 0, amounts, unpriced, 0)


def test_each_group_has_a_line_and_all_of_them_a_last_one() -> None:
    sums = [
        found("gpt-5", 1_000, {"USD": Decimal("0.1250")}),
        found("\x1b[2Jown", 20, {}, unpriced=2),
    ]
    whole = [found(None, 1_020, {"EUR": Decimal(1), "USD": Decimal("0.125")}, unpriced=2)]
    assert plain(cost_lines([CostField.MODEL], sums, whole, None)).splitlines() == [
        "MODEL       CALLS  TOKENS  CACHED  COST              WITHOUT A PRICE",
        "gpt-5       2      1000    1       0.125 USD",
        "\\x1b[2Jown  2      20      1       unknown           2",
        "total       2      1020    1       1 EUR, 0.125 USD  2",
    ]


def test_nothing_is_said_of_no_calls() -> None:
    assert plain(cost_lines([], [], [], None)) == "no model calls\n"
