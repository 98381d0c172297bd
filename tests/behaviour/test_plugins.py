"""Stories about installed plugins and what they contribute to each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pilotage.container import Application
from pilotage.errors import AgentDefinitionError, ApplicationStateError, PluginError

Install = Callable[..., None]


class Notes(list[str]):
    """Where plugins write that they were called."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package the way an installer does: modules, and metadata with entry points."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, entry_points: str, **functions: str) -> None:
        body = "".join(f"def {name}(app):\n    {code}\n" for name, code in functions.items())
        (tmp_path / f"{package}.py").write_text(f"from {__name__} import Notes\n{body}")
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)

    yield install
    for name in set(sys.modules) - before:
        if name.startswith("harbour_"):
            del sys.modules[name]


@pytest.fixture
def harbour(install: Install) -> None:
    """Two features, `cranes` and `lights`, and `electric`, which contributes to both of them."""
    install(
        "harbour_cranes",
        "[pilotage.plugins]\ncranes = harbour_cranes:initialize\n",
        initialize="app.add(Notes(['cranes']))",
    )
    install(
        "harbour_lights",
        "[pilotage.plugins]\nlights = harbour_lights:initialize\n",
        initialize="app.add(Notes(['lights']))",
    )
    install(
        "harbour_electric",
        "[pilotage.plugins]\nelectric = harbour_electric:initialize\n"
        "[pilotage.contributions.lights]\nelectric = harbour_electric:light\n"
        "[pilotage.contributions.cranes]\nelectric = harbour_electric:lift\n",
        initialize="app.add(Notes(['electric']))",
        light="app.add(Notes(['electric lights']))",
        lift="app.add(Notes(['electric cranes']))",
    )


async def notes_of(app: Application) -> list[str]:
    async with app:
        return [note for notes in app.get_all(Notes) for note in notes]


@pytest.mark.usefixtures("harbour")
async def test_included_plugins_are_loaded_by_name_and_then_their_contributions() -> None:
    app = Application("harbour").load_plugins(include=["lights", "electric", "cranes"])
    assert await notes_of(app) == ["cranes", "electric", "lights", "electric cranes", "electric lights"]
    assert app.report.loaded == [
        "plugin 'cranes'",
        "plugin 'electric'",
        "plugin 'lights'",
        "contribution of 'electric' to 'cranes'",
        "contribution of 'electric' to 'lights'",
    ]


@pytest.mark.usefixtures("harbour")
async def test_a_contribution_is_skipped_if_its_feature_or_its_provider_is_not_active() -> None:
    app = Application("harbour").load_plugins(include=["lights", "electric"], exclude=["electric"])
    assert await notes_of(app) == ["lights"]
    skipped = {entry.name: entry.reason for entry in app.report.skipped}
    assert skipped["plugin 'electric'"] == "excluded"
    assert skipped["plugin 'cranes'"] == "not included"
    assert skipped["contribution of 'electric' to 'lights'"] == "plugin 'electric' not active"
    assert skipped["contribution of 'electric' to 'cranes'"] == "plugins 'cranes' and 'electric' not active"
    assert "skipped  plugin 'electric': excluded" in str(app.report)
    assert [phase.name for phase in app.report.phases][:2] == ["plugins", "contributions"]


@pytest.mark.usefixtures("harbour")
def test_what_is_not_loaded_is_not_even_imported() -> None:
    Application("harbour").load_plugins(include=["lights"])
    assert "harbour_lights" in sys.modules
    assert "harbour_electric" not in sys.modules


@pytest.mark.usefixtures("harbour")
async def test_loading_plugins_again_loads_only_what_is_new() -> None:
    app = Application("harbour").load_plugins(include=["lights"]).load_plugins(include=["lights", "electric"])
    assert await notes_of(app) == ["lights", "electric", "electric lights"]


@pytest.mark.usefixtures("harbour")
def test_a_name_that_is_not_installed_is_refused_with_the_installed_ones() -> None:
    for wrong in ({"include": ["crane"]}, {"exclude": ["crane"]}):
        with pytest.raises(PluginError, match=r"no plugin 'crane' is installed\. Installed are: .*cranes, "):
            Application("harbour").load_plugins(**wrong)


def test_a_failing_plugin_is_named_and_its_error_kept(install: Install) -> None:
    install("harbour_ferry", "[pilotage.plugins]\nferry = harbour_ferry:sink\n", sink="raise OSError('sunk')")
    with pytest.raises(PluginError) as caught:
        Application("harbour").load_plugins(include=["ferry"])
    assert str(caught.value) == (
        "The plugin 'ferry' (harbour_ferry:sink) failed: OSError: sunk. "
        'Fix or upgrade it, or leave it out: load_plugins(exclude=["ferry"]).'
    )
    assert isinstance(caught.value.__cause__, OSError)


def test_a_wrong_setting_is_reported_in_its_own_words(install: Install) -> None:
    body = "from pilotage.errors import AgentDefinitionError; raise AgentDefinitionError('PORT is wrong.')"
    install("harbour_ferry", "[pilotage.plugins]\nferry = harbour_ferry:sink\n", sink=body)
    with pytest.raises(AgentDefinitionError, match="PORT is wrong") as caught:
        Application("harbour").load_plugins(include=["ferry"])
    assert caught.value.__notes__ == ["Found by the plugin 'ferry' (harbour_ferry:sink)."]


@pytest.mark.usefixtures("harbour")
def test_a_contribution_that_cannot_be_imported_is_named(install: Install) -> None:
    install(
        "harbour_steam",
        "[pilotage.plugins]\nsteam = harbour_steam:initialize\n"
        "[pilotage.contributions.cranes]\nsteam = harbour_steam:no_such_function\n",
        initialize="pass",
    )
    with pytest.raises(
        PluginError,
        match=r"^The contribution of 'steam' to 'cranes' \(harbour_steam:no_such_function\) failed",
    ):
        Application("harbour").load_plugins(include=["steam", "cranes"])


@pytest.mark.usefixtures("harbour")
def test_two_packages_with_one_plugin_name_clash(install: Install) -> None:
    install("harbour_floods", "[pilotage.plugins]\nlights = harbour_floods:initialize\n", initialize="pass")
    with pytest.raises(PluginError) as caught:
        Application("harbour").load_plugins(include=["lights"])
    assert str(caught.value) == (
        "The plugin 'lights' is installed twice: harbour_floods:initialize and harbour_lights:initialize. "
        "Uninstall one of the packages."
    )


async def test_plugins_are_loaded_before_the_start() -> None:
    async with Application("harbour") as app:
        with pytest.raises(ApplicationStateError, match="comes too late"):
            app.load_plugins(include=[])
