"""`pilotage memory`: what agents remember of a user, per tenant and user."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.till import Till

REMEMBER = """
import asyncio
from pilotage import Principal
from pilotage.agent import IAgentMemory, MemoryItem, MemoryKind, MemoryScope
from pilotage.agent import MemoryUse
from pilotage.safety.trust import Integrity, TrustLabel
from till import *

@Agent(spec=AgentExecutionSpec(name="waiter", memory=MemoryUse(), recovery=DURABLE))
class Waiter:
    '''Serve people.'''

cafe = Application("cafe").add(Waiter, OfflineModel()).load_plugins()
LABEL = TrustLabel(Integrity.USER, origins=frozenset({"chat"}))

async def main():
    async with cafe:
        memory = cafe.get(IAgentMemory)
        for tenant, user in (("default", "ada"), ("default", "bob"), ("acme", "ada")):
            for number, text in enumerate(("Tea without milk.", "Came on Monday.\\x1b[2J")):
                kind = list(MemoryKind)[number]
                item = MemoryItem(f"{tenant}-{user}-{number}", kind, text, LABEL, {"source": "till"})
                await memory.remember(MemoryScope(tenant, user), item)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Path:
    """A folder with an application that has remembered something."""
    folder = Till(tmp_path_factory.mktemp("cafe"), sqlite_template).folder
    (folder / "cafe.py").write_text(REMEMBER)
    subprocess.run([sys.executable, "cafe.py"], cwd=folder, check=True)
    return folder


@pytest.fixture
def till(tmp_path: Path, remembered: Path) -> Till:
    shutil.copy(remembered / "cafe.py", tmp_path)
    return Till(tmp_path, remembered / ".pilotage")


@pytest.mark.parametrize("app", ["cafe:cafe", "till:app", ""])
def test_what_is_remembered_is_listed_shown_and_exported_for_one_user(till: Till, app: str) -> None:
    named = {"PILOTAGE_APP": app}
    listed = till.call("memory", "list", environ=named)
    assert [each.split("  ")[0] for each in listed.out.splitlines()] == ["default-ada-1", "default-ada-0"]
    assert "Came on Monday.\\x1b[2J" in listed.out
    assert till.call("memory", "list", "milk", environ=named).out.startswith("default-ada-0  fact ")
    assert till.call("memory", "list", "--kind", "episode", "--user", "bob", environ=named).out.startswith(
        "default-bob-1  episode "
    )
    shown = till.call("memory", "show", "default-ada-0", environ=named)
    assert shown.code == 0
    assert "trust   user, public, from chat\n" in shown.out
    assert shown.out.endswith("\nTea without milk.\n")
    exported = till.call("memory", "export", "--tenant", "acme", environ=named).lines
    assert [each["id"] for each in exported] == ["acme-ada-0", "acme-ada-1"]
    assert exported[0]["text"] == "Tea without milk."
    assert till.call("memory", "list", "--json", environ=named).json[0]["id"] == "default-ada-1"


def test_one_item_is_forgotten_or_everything_of_a_user(till: Till) -> None:
    forgotten = till.call("memory", "forget", "default-ada-0")
    assert (forgotten.code, forgotten.out) == (
        0,
        "1 item of user 'ada' in tenant 'default' forgotten\n",
    )
    assert [each["id"] for each in till.call("memory", "export").lines] == ["default-ada-1"]
    assert till.call("memory", "forget", "--all", "--json").json == {"forgotten": 1}
    assert till.call("memory", "export").out == ""
    assert "nothing is stored for user 'ada' in tenant 'default'" in till.call("memory", "list").out
    assert len(till.call("memory", "export", "--user", "bob").lines) == 2
    assert len(till.call("memory", "export", "--tenant", "acme").lines) == 2
    assert till.call("doctor").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "nothing"), "there is no item 'nothing' of user 'ada' in tenant 'default'."),
        (("show", "default-ada"), "2 items begin with 'default-ada': default-ada-0, default-ada-1."),
        (("forget",), "name the item to forget, or --all for everything of user 'ada'"),
        (("forget", "x", "--all"), "name the item to forget, or --all for everything of user 'ada'"),
        (("forget", "x"), "there is no item 'x' of user 'ada'"),
    ],
)
def test_what_is_not_clear_is_refused_and_forgets_nothing(
    till: Till, words: tuple[str, ...], message: str
) -> None:
    refused = till.call("memory", *words)
    assert (refused.code, message in refused.err) == (2, True)
    assert len(till.call("memory", "export").lines) == 2


def test_an_application_without_a_store_has_no_memory(till: Till) -> None:
    (till.folder / "bare.py").write_text('from pilotage import Application\napp = Application("bare")\n')
    refused = till.call("memory", "list", "--app", "bare:app")
    assert (refused.code, "application 'bare' has no memory" in refused.err) == (2, True)
