"""Stories about an application from its making to its end."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pilotage.container import (
    Application,
    Configuration,
    IContainer,
    ILifecycle,
    Pod,
    UseCase,
)
from pilotage.errors import (
    ApplicationStartError,
    ApplicationStateError,
)


class Bank(ABC):
    @abstractmethod
    def pay(self) -> str: ...


@Pod
class HttpBank(Bank):
    def pay(self) -> str:
        return "paid over http"


class Clock(Protocol):
    def now(self) -> str: ...


class WallClock:
    def now(self) -> str:
        return "noon"


class User: ...


class Order: ...


@Pod
class Payments:
    def __init__(self, bank: Bank, clock: Clock) -> None:
        self.bank, self.clock = bank, clock


@UseCase
class Refunds:
    def __init__(self, payments: Payments, limit: int = 3, backup: Order | None = None) -> None:
        self.payments, self.limit, self.backup = payments, limit, backup


class Diary(list[str]):
    """Where the pods of these stories write what happens to them."""


@Configuration
class Settings:
    url = "bank.example"


class Connection:
    def __init__(self, url: str) -> None:
        self.url = url


@Pod
async def connection(settings: Settings, diary: Diary) -> AsyncIterator[Connection]:
    diary.append("connect")
    yield Connection(settings.url)
    diary.append("disconnect")


class Recorded(ILifecycle):
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    async def start(self) -> None:
        self.diary.append(f"start {type(self).__name__}")

    async def stop(self) -> None:
        self.diary.append(f"stop {type(self).__name__}")


class Database(Recorded): ...


class Queue(Recorded): ...


class Worker(Recorded):
    def __init__(self, diary: Diary, database: Database, queue: Queue) -> None:
        super().__init__(diary)


class BrokenAtStart(Recorded):
    def __init__(self, diary: Diary, worker: Worker) -> None:
        super().__init__(diary)

    async def start(self) -> None:
        raise OSError("no port left")


class BrokenAtStop(Recorded):
    async def stop(self) -> None:
        raise OSError(f"cannot stop {type(self).__name__}")


async def test_hooks_are_called_in_dependency_order_and_in_reverse() -> None:
    diary = Diary()
    async with Application("shop").add(diary, Worker, Database, Queue):
        assert diary == ["start Database", "start Queue", "start Worker"]
    assert diary[3:] == ["stop Worker", "stop Queue", "stop Database"]


async def test_a_failing_start_stops_what_had_started_and_raises_its_own_error() -> None:
    diary = Diary()
    app = Application("shop").add(diary, BrokenAtStart, Worker, Database, BrokenAtStop, Queue)
    with pytest.raises(OSError, match="no port left") as caught:
        await app.start()
    assert caught.value.__notes__ == [
        "raised by BrokenAtStart.start()",
        "Also, BrokenAtStop.stop() failed: OSError: cannot stop BrokenAtStop",
    ]
    assert diary[4:] == ["stop Worker", "stop Queue", "stop Database"]
    with pytest.raises(ApplicationStateError):
        app.get(Diary)


async def test_a_failing_stop_does_not_keep_others_from_being_stopped() -> None:
    diary = Diary()
    app = Application("shop").add(diary, Database, BrokenAtStop, Queue)
    await app.start()
    with pytest.raises(ExceptionGroup, match="application 'shop' failed to stop cleanly") as caught:
        await app.stop()
    assert [str(error) for error in caught.value.exceptions] == ["cannot stop BrokenAtStop"]
    assert diary[3:] == ["stop Queue", "stop Database"]
    await app.stop()


async def test_a_failing_stop_does_not_hide_the_error_of_the_block() -> None:
    with pytest.raises(ValueError, match="of the block") as caught:
        async with Application("shop").add(Diary, BrokenAtStop):
            raise ValueError("of the block")
    assert caught.value.__notes__ == [
        "Also, BrokenAtStop.stop() failed: OSError: cannot stop BrokenAtStop",
    ]


class Unlucky:
    def __init__(self, queue: Queue) -> None:
        raise OSError("no luck")


class NeedsUnlucky:
    def __init__(self, unlucky: Unlucky) -> None: ...


async def test_a_failing_constructor_is_named_with_the_way_to_it() -> None:
    diary = Diary()
    with pytest.raises(OSError, match="no luck") as caught:
        await Application("shop").add(diary, Settings, connection, NeedsUnlucky, Unlucky, Queue).start()
    assert caught.value.__notes__ == ["raised while making NeedsUnlucky -> Unlucky"]
    assert diary == ["connect", "disconnect"]


async def test_a_cancelled_start_is_cleaned_up_and_stays_cancelled() -> None:
    diary, waiting = Diary(), asyncio.Event()

    class Slow(ILifecycle):
        def __init__(self, queue: Queue) -> None: ...

        async def start(self) -> None:
            waiting.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(Application("shop").add(diary, Slow, Queue).start())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert diary == ["start Queue", "stop Queue"]


def test_a_program_without_an_event_loop_uses_a_plain_with_block() -> None:
    diary = Diary()
    with Application("shop").add(diary, Database) as app:
        assert app.get(Database).diary is diary
        assert diary == ["start Database"]
    assert diary == ["start Database", "stop Database"]


def test_a_plain_with_block_reports_what_failed_at_its_end() -> None:
    with (
        pytest.raises(ExceptionGroup, match="failed to stop cleanly"),
        Application("shop").add(Diary, BrokenAtStop),
    ):
        pass
    with (
        pytest.raises(OSError, match="no port left"),
        Application("shop").add(Diary, BrokenAtStart, Worker, Database, Queue),
    ):
        pass


async def test_an_application_that_could_not_start_can_be_completed_and_started() -> None:
    app = Application("shop").add(Payments, WallClock)
    with pytest.raises(ApplicationStartError):
        await app.start()
    async with app.add(HttpBank):
        assert app.get(Payments).bank.pay() == "paid over http"


async def test_adding_a_pod_twice_changes_nothing() -> None:
    diary = Diary()
    async with Application("shop").add(HttpBank, diary).add(HttpBank, diary) as app:
        assert len(app.get_all(Bank)) == 1
        assert app.get_all(Diary) == [diary]


async def test_looking_up_what_is_not_there() -> None:
    app = Application("shop").add(HttpBank)
    assert app.contains(Bank)
    assert not app.contains(User)
    async with app:
        assert app.get_or_none(User) is None
        assert app.get_or_none(Bank) is app.get(HttpBank)
        assert app.get_all(User) == []
        assert app.contains(HttpBank)
        assert not app.contains(User)


class Impatient:
    def __init__(self, app: Application) -> None:
        self.worker = app.get(Worker)


async def test_a_pod_asked_for_during_the_start_is_made_ahead_of_its_turn() -> None:
    diary = Diary()
    async with Application("shop").add(Impatient, diary, Worker, Database, Queue) as app:
        assert app.get(Impatient).worker is app.get(Worker)
        assert diary == ["start Database", "start Queue", "start Worker"]


class Homesick:
    def __init__(self, app: Application, container: IContainer) -> None:
        self.app, self.container = app, container


async def test_the_application_injects_itself() -> None:
    async with Application("shop").add(Homesick) as app:
        assert app.get(Homesick).app is app
        assert app.get(Homesick).container is app


@pytest.fixture
def bazaar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    files = {
        "bazaar/__init__.py": "",
        "bazaar/__main__.py": "raise SystemExit('the program was run')",
        "bazaar/ports.py": "class Stall: ...",
        "bazaar/stalls/__init__.py": "from bazaar.stalls.fruit import Fruit",
        "bazaar/stalls/fruit.py": (
            "from pilotage.container import Pod\n"
            "from bazaar.ports import Stall\n"
            "@Pod\n"
            "class Fruit(Stall): ...\n"
        ),
        "bazaar/stalls/tests.py": "raise ImportError('the tests were imported')",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield "bazaar"
    for name in [name for name in sys.modules if name.partition(".")[0] == "bazaar"]:
        del sys.modules[name]


async def test_scanning_a_package_finds_the_pods_below_it(bazaar: str) -> None:
    async with Application("bazaar").scan(bazaar, exclude="*.tests") as app:
        stall = sys.modules["bazaar.ports"].Stall
        assert [type(pod).__name__ for pod in app.get_all(stall)] == ["Fruit"]


def test_a_module_that_cannot_be_imported_is_named(bazaar: str) -> None:
    with pytest.raises(ImportError, match="the tests were imported") as caught:
        Application("bazaar").scan(bazaar)
    assert caught.value.__notes__ == ["raised while importing bazaar.stalls.tests to scan it for pods"]


def test_a_module_that_a_scanned_one_misses_is_reported_as_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lonely_stall.py").write_text("import no_such_supplier\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_supplier"):
        Application("bazaar").scan("lonely_stall")


def test_describing_works_before_the_start_and_shows_what_is_missing() -> None:
    app = Application("shop").add(Refunds, Payments, WallClock)
    assert app.describe() == (
        "application 'shop'\n"
        "Refunds [use case]\n"
        "├── Payments\n"
        "│   ├── Bank (missing)\n"
        "│   └── WallClock as Clock\n"
        "└── Order (left out)"
    )
    assert app.describe("mermaid").splitlines()[0] == "flowchart TD"


async def test_the_report_has_phases_with_durations() -> None:
    app = Application("shop").scan("pilotage.container.pod").add(HttpBank)
    async with app:
        assert [phase.name for phase in app.report.phases] == ["scan", "validate", "build", "start"]
        assert app.report.pods == 1
        assert str(app.report).startswith("application 'shop': 1 pod in ")
