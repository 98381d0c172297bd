"""Principals and the context of the running code."""

from __future__ import annotations

import asyncio

from pilotage.agent.principal import Principal, RunContext, get_run_context, run_context


def test_a_principal_belongs_to_a_tenant_and_holds_permissions() -> None:
    assert Principal("ada").tenant == "default"
    assert Principal("ada", permissions=["pay"]).permissions == frozenset({"pay"})  # type: ignore[arg-type]


async def test_the_run_context_is_inherited_by_what_is_started_inside() -> None:
    async def read() -> str | None:
        return get_run_context().run_id

    assert get_run_context() == RunContext()
    with run_context(RunContext(run_id="r1")):
        task = asyncio.create_task(read())
        with run_context(RunContext(run_id="r2")):
            assert await read() == "r2"
        assert await task == "r1"
    assert get_run_context() == RunContext()
