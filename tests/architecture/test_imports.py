"""What importing Pilotage pulls in. The layers themselves are checked by import-linter in `make check`."""

from __future__ import annotations

import subprocess
import sys

import pytest


def third_party_after(statement: str) -> set[str]:
    """The third-party packages that are loaded after a statement in a fresh interpreter."""
    program = (
        "import sys; sys.path[:0] = []\nbefore = set(sys.modules)\n"
        f"{statement}\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names) - {'pilotage'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    return {name for name in done.stdout.split() if not name.startswith("_")}


@pytest.mark.parametrize(
    "package",
    ["pilotage.container", "pilotage.safety", "pilotage.agent", "pilotage", "pilotage.adapters.sqlalchemy"],
)
def test_importing_a_package_loads_nothing_from_outside(package: str) -> None:
    assert third_party_after(f"import {package}") == set()


def test_pydantic_is_loaded_with_the_first_schema() -> None:
    tool = "from pilotage import agent_tool\n@agent_tool\ndef f(x: int) -> int:\n    return x\n"
    loaded = third_party_after(tool + "from pilotage import ToolCallingSpec; ToolCallingSpec.from_tools([f])")
    assert loaded <= {
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "annotated_types",
        "typing_inspection",
    }


def test_a_redaction_policy_loads_nothing_from_outside() -> None:
    policy = (
        "from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern\n"
        "StreamingRedactionPolicy((StreamingSensitivePattern('key', 'sk-[0-9]{4}'),))"
    )
    assert third_party_after(policy) == set()


def test_loading_all_plugins_loads_nothing_from_outside() -> None:
    plugins = "from pilotage import Application\napp = Application('harbour').load_plugins()\n"
    assert third_party_after(plugins + "assert len(app.report.loaded) >= 7, app.report.loaded") == set()


def test_an_application_starts_without_the_adapters_it_does_not_use() -> None:
    program = (
        "from pilotage import Agent, Application\n"
        "from pilotage.models import OfflineModel\n"
        "@Agent\nclass Greeter:\n    async def execute(self, name: str) -> str:\n        return name\n"
        "with Application('harbour').add(Greeter, OfflineModel).load_plugins(): pass"
    )
    dear = {"ag_ui", "fastapi", "starlette", "httpx", "openai", "sqlalchemy", "opentelemetry", "cryptography"}
    assert third_party_after(program) & dear == set()


def test_an_adapter_that_is_imported_after_the_plugins_serves_its_agents() -> None:
    program = (
        "from pilotage import Agent, Application\n"
        "from pilotage.models import OfflineModel\n"
        "app = Application('harbour').load_plugins()\n"
        "from starlette.applications import Starlette\n"
        "from pilotage.adapters.agui import AGUICompatible, AgUiConfig\n"
        "@AGUICompatible('/pilot')\n@Agent\nclass Pilot:\n    '''Brings ships in.'''\n"
        "api = Starlette()\n"
        "with app.add(Pilot, OfflineModel, api):\n"
        "    assert [each.path for each in api.routes] == ['/pilot', '/pilot/stream', '/pilot/ws', '/pilot/threads/{thread_id:path}']\n"
        "    assert app.get(AgUiConfig) == AgUiConfig()"
    )
    assert {"ag_ui", "starlette"} <= third_party_after(program)


def test_defining_an_agent_does_not_load_the_runtime() -> None:
    program = (
        "import sys\nfrom pilotage import Agent, agent_tool\n"
        "@Agent(durable=True)\nclass Greeter:\n    'Greets.'\n"
        "assert 'pilotage.runtime' not in sys.modules\n"
        "from pilotage import AgentRuns\n"
        "assert 'pilotage.runtime' in sys.modules"
    )
    assert third_party_after(program) == set()


def test_every_module_of_the_contract_can_be_imported_first() -> None:
    program = (
        "import importlib, sys\n"
        "from pilotage.agent import _NAMES\n"
        "modules = [*_NAMES, 'pilotage.models', 'pilotage.context']\n"
        "for name in modules:\n"
        "    for loaded in [each for each in sys.modules if each.partition('.')[0] == 'pilotage']:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
        "print(len(modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
