"""Which model drives an agent where nobody gave one to `run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pilotage import Agent, Application, IAgentModel, ModelRequest, Pod, run
from pilotage.agent import ModelMessage
from pilotage.errors import ApplicationStartError, PluginError
from pilotage.models import OfflineModel
from pilotage.testing import ScriptedModel, says

Install = Callable[[str, str], None]


@Agent
class Greeter:
    """Greet people."""


@Agent
class Counter:
    async def execute(self, words: str) -> int:
        return len(words.split())


@Agent
class Asker:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> str:
        return (await self.model.complete(ModelRequest([ModelMessage.user(question)]))).content


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a plugin whose `initialize(app)` has this body."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, body: str) -> None:
        (tmp_path / f"{name}.py").write_text(
            "from pilotage import IAgentModel, Pod\n"
            "from pilotage.testing import ScriptedModel, says\n"
            "class Settings:\n    answer = 'From the adapter.'\n"
            "@Pod\n"
            f"def {name}_model(settings: Settings) -> ScriptedModel:\n"
            "    return ScriptedModel([says(settings.answer)])\n"
            f"def initialize(app):\n    {body}\n"
        )
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[pilotage.plugins]\n{name} = {name}:initialize\n")

    yield install
    for name in set(sys.modules) - before:
        if name.startswith("harbour_"):
            del sys.modules[name]


async def test_without_a_model_the_offline_model_answers() -> None:
    result = await run(Greeter, "greet Ada")
    assert result.output.startswith("Good day, Ada.\n")
    assert "not a language model" in result.output


async def test_an_agent_that_injects_a_model_gets_it_too() -> None:
    assert (await run(Asker, "greet Ada")).output.startswith("Good day, Ada.\n")


async def test_a_model_that_is_given_wins() -> None:
    assert (await run(Greeter, "greet Ada", model=ScriptedModel([says("Ahoy.")]))).output == "Ahoy."


async def test_a_model_among_what_is_added_wins() -> None:
    @Pod
    def model() -> IAgentModel:
        return ScriptedModel([says("Ahoy.")])

    assert (await run(Greeter, "greet Ada", add=[model])).output == "Ahoy."


async def test_an_adapter_that_is_installed_and_configured_wins(install: Install) -> None:
    install("harbour_one", "app.add(Settings(), harbour_one_model)")
    assert (await run(Greeter, "greet Ada")).output == "From the adapter."


async def test_an_adapter_that_is_installed_and_not_configured_does_not(install: Install) -> None:
    install("harbour_one", "pass")
    assert (await run(Greeter, "greet Ada")).output.startswith("Good day, Ada.")


async def test_of_several_adapters_the_one_is_taken_that_is_bound(install: Install) -> None:
    install("harbour_one", "app.add(Settings(), harbour_one_model)")
    install("harbour_two", "app.bind(IAgentModel, ScriptedModel([says('Bound.')]))")
    assert (await run(Greeter, "greet Ada")).output == "Bound."


async def test_several_adapters_without_a_choice_are_a_mistake(install: Install) -> None:
    install("harbour_one", "app.add(ScriptedModel([]))")
    install("harbour_two", "app.add(ScriptedModel([]))")
    with pytest.raises(ApplicationStartError, match="scripted_model"):
        await run(Asker, "greet Ada")


async def test_an_adapter_with_wrong_settings_is_a_mistake_and_not_passed_over(install: Install) -> None:
    install("harbour_one", "raise ValueError('PILOTAGE_MODEL_BASE_URL is no address')")
    with pytest.raises(PluginError, match="PILOTAGE_MODEL_BASE_URL is no address"):
        await run(Greeter, "greet Ada")


async def test_an_agent_that_needs_no_model_asks_nobody(install: Install) -> None:
    install("harbour_one", "raise ValueError('never loaded')")
    assert (await run(Counter, "one two three")).output == 3


async def test_an_application_does_not_start_with_rules_in_the_place_of_its_model() -> None:
    with pytest.raises(
        ApplicationStartError, match=r"Without a server: app.add\(pilotage.models.OfflineModel\)"
    ):
        await Application("hello").add(Greeter).load_plugins().start()


async def test_an_application_may_ask_for_the_offline_model() -> None:
    async with Application("hello").add(Greeter, OfflineModel).load_plugins() as app:
        assert app.get(IAgentModel).capability.model == "offline"


def test_without_a_server_no_adapter_of_a_model_or_of_a_transport_is_imported() -> None:
    program = (
        "import sys\n"
        "from pilotage.models.default import default_model\n"
        "default_model()\n"
        "adapters = {'pilotage.adapters.openai', 'pilotage.adapters.agui', 'pilotage.adapters.asgi'}\n"
        "print({*adapters, 'sqlalchemy', 'starlette', 'httpx'} & {*sys.modules})\n"
    )
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PILOTAGE_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert done.stdout == "set()\n"
