"""The worker beside a server: added where its ports are there, switched off where nothing else is wanted."""

from __future__ import annotations

from pilotage import Application
from pilotage.runtime import WorkerSettings
from pilotage.runtime.delivery.worker import configure_worker
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore


def app_with(*pods: object) -> Application:
    app = Application("shop").add(*pods)
    initialize(app)
    return app


async def settings_of(app: Application) -> WorkerSettings | None:
    """The settings that a started application has."""
    async with app:
        return app.get_or_none(WorkerSettings)


async def test_a_server_has_a_worker_where_its_ports_are_there() -> None:
    app, bare = app_with(*MemoryStore().ports), app_with()
    for each in (app, bare):
        configure_worker(each, is_on=True)
    assert (await settings_of(app), await settings_of(bare)) == (WorkerSettings(), None)


async def test_settings_of_the_application_count() -> None:
    own = WorkerSettings(concurrency=2, is_on=False)
    app = app_with(own, *MemoryStore().ports)
    configure_worker(app, is_on=True)
    assert await settings_of(app) == own


async def test_a_server_without_a_worker_needs_no_ports_of_one() -> None:
    app, bare = app_with(WorkerSettings(concurrency=2), *MemoryStore().ports), app_with()
    for each in (app, bare):
        configure_worker(each, is_on=False)
    assert await settings_of(app) == WorkerSettings(concurrency=2, is_on=False)
    assert await settings_of(bare) == WorkerSettings(is_on=False)
