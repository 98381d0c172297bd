"""The view `pilotage_costs`: what rows were paid for, in columns, for people and their tools.

It is made by the migration that brought it, too: a change of it needs another migration.
"""

from __future__ import annotations

from pilotage.adapters.sqlalchemy.dialect import SqlDialect

_VIEW = """
CREATE VIEW pilotage_costs AS
WITH RECURSIVE tree (position, tree_id) AS (
    SELECT r.position, r.run_id FROM pilotage_runs r WHERE NOT EXISTS (
        SELECT 1 FROM pilotage_runs p WHERE p.tenant_id = r.tenant_id AND p.run_id = r.parent_id
    )
    UNION ALL
    SELECT child.position, tree.tree_id FROM pilotage_runs child
    JOIN pilotage_runs above ON above.tenant_id = child.tenant_id AND above.run_id = child.parent_id
    JOIN tree ON tree.position = above.position
)
SELECT
    r.tenant_id, tree.tree_id, r.run_id, r.agent_type AS agent, coalesce({version}, 1) AS version,
    r.conversation_id, j.action_id, j.created_at, {day} AS day,
    {model} AS model, {role} AS role, {tool} AS tool, {total} AS total_tokens, {read} AS input_tokens,
    {written} AS output_tokens, {cached} AS cached_tokens, {stored} AS cache_written_tokens,
    {thought} AS reasoning_tokens, {estimated} IS NOT NULL AS is_estimated, {amount} AS amount,
    {currency} AS currency, {prices} AS pricing_version
FROM pilotage_journal j
JOIN pilotage_runs r ON r.position = j.run
JOIN tree ON tree.position = r.position
{charges}
WHERE j.costs IS NOT NULL
"""

_FIELDS = (
    *("model", "role", "total", "read", "written", "cached", "stored", "thought", "estimated", "amount"),
    *("currency", "prices", "tool", "version"),
)
"""The fields of a charge in their order, see `pilotage.agent.ports.costs`."""
_COUNTS = ("total", "read", "written", "cached", "stored", "thought", "version")


def cost_view(dialect: SqlDialect) -> str:
    """Return the statement that makes the view."""
    fields = {name: dialect.charge_field.format(place=place) for place, name in enumerate(_FIELDS)}
    fields |= {name: f"CAST({fields[name]} AS BIGINT)" for name in _COUNTS}
    fields["amount"] = dialect.amount.format(text=fields["amount"])
    return _VIEW.format(day=dialect.day.format(moment="j.created_at"), charges=dialect.charges, **fields)
