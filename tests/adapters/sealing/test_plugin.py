"""When an application gets the sealer of the plugin, and what keeps it from starting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilotage.adapters.sealing import AesGcmSealer, KeyFileError, SealingSettings, create_key_file
from pilotage.adapters.sealing.plugin import initialize
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.ports.sealing import IRecordSealer, SealContext
from pilotage.container.application import Application
from pilotage.testing.sealer import MemorySealer

CONTEXT = SealContext(RunKey("default", "run-1"), "run/tool:pay#1", JournalStage.AFTER)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PILOTAGE_SEALING_KEY_FILE", raising=False)
    monkeypatch.delenv("PILOTAGE_SEALING_OLD_KEY_FILES", raising=False)


def with_plugin(app: Application) -> Application:
    initialize(app)
    return app


async def test_an_application_that_names_no_key_file_gets_no_sealer() -> None:
    async with with_plugin(Application("shop")) as app:
        assert app.get_or_none(IRecordSealer) is None


async def test_settings_of_the_application_name_the_key_file(tmp_path: Path) -> None:
    key = create_key_file(tmp_path / "a.key")
    async with with_plugin(Application("shop").add(SealingSettings(tmp_path / "a.key"))) as app:
        assert app.get(AesGcmSealer).key_id == key.id


async def test_the_environment_names_the_key_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: create_key_file(tmp_path / name) for name in ("new", "old", "older")}
    monkeypatch.setenv("PILOTAGE_SEALING_KEY_FILE", str(tmp_path / "new"))
    monkeypatch.setenv(
        "PILOTAGE_SEALING_OLD_KEY_FILES", os.pathsep.join(str(tmp_path / each) for each in ("old", "older"))
    )
    async with with_plugin(Application("shop")) as app:
        sealer = app.get(IRecordSealer)
        assert sealer.seal(CONTEXT, "x").key_id == keys["new"].id
        for key in keys.values():
            assert sealer.open(CONTEXT, AesGcmSealer(key).seal(CONTEXT, "kept")) == "kept"


async def test_settings_of_the_application_win_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_SEALING_KEY_FILE", str(tmp_path / "not there"))
    key = create_key_file(tmp_path / "a.key")
    async with with_plugin(Application("shop").add(SealingSettings(tmp_path / "a.key"))) as app:
        assert app.get(AesGcmSealer).key_id == key.id


async def test_a_sealer_of_the_application_is_left_alone(tmp_path: Path) -> None:
    own = MemorySealer()
    app = Application("shop").add(own, SealingSettings(tmp_path / "not there"))
    async with with_plugin(app):
        assert app.get(IRecordSealer) is own


async def test_a_missing_key_keeps_the_application_from_starting(tmp_path: Path) -> None:
    app = with_plugin(Application("shop").add(SealingSettings(tmp_path / "a.key")))
    with pytest.raises(KeyFileError, match="does not exist"):
        await app.start()


async def test_the_embedded_default_makes_its_key_once(tmp_path: Path) -> None:
    settings = SealingSettings(tmp_path / "a.key", creates_key=True)
    async with with_plugin(Application("shop").add(settings)) as app:
        sealed = app.get(IRecordSealer).seal(CONTEXT, "kept")
    async with with_plugin(Application("shop").add(settings)) as app:
        assert app.get(IRecordSealer).open(CONTEXT, sealed) == "kept"


@pytest.mark.parametrize("environ", [{}, {"PILOTAGE_SEALING_KEY_FILE": ""}])
def test_an_environment_without_a_key_file_gives_no_settings(environ: dict[str, str]) -> None:
    assert SealingSettings.from_environment(environ) is None


def test_empty_names_of_old_key_files_are_left_out() -> None:
    environ = {
        "PILOTAGE_SEALING_KEY_FILE": "a",
        "PILOTAGE_SEALING_OLD_KEY_FILES": f"b{os.pathsep}{os.pathsep}",
    }
    assert SealingSettings.from_environment(environ) == SealingSettings(Path("a"), (Path("b"),))
