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
