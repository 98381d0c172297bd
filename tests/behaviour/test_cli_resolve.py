"""`pilotage runs show` and `runs resolve` for a run that diverged, as an engineer on call uses them after a release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.behaviour.till import Till, steady

SOURCE = '''
from pathlib import Path

from pilotage import Agent, AgentExecutionSpec, Application, Idempotency, Pod, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement

FREE = ToolApprovalRequirement.NOT_REQUIRED


@Pod
class Shop:
    def act(self, what: str) -> str:
        with Path("ledger").open("a") as ledger:
            ledger.write(what + "\\n")
        return what

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE, reads_untrusted=False)
    async def charge(self, amount: int) -> str:
        """Charge an amount."""
        return self.act(f"charge {amount}")

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT, approval=FREE, reads_untrusted=False)
    async def gift(self, what: str) -> str:
        """Send a gift."""
        return self.act(f"gift {what}")

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT, reads_untrusted=False)
    async def ship(self, order: str) -> str:
        """Ship an order."""
        return self.act(f"ship {order}")


@Agent(spec=AgentExecutionSpec(name="seller", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Seller:
    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    async def execute(self, order: str) -> str:
        PROGRAM


app = Application("till").add(Seller, Shop).load_plugins()
'''
FIRST = 'await self.shop.charge(5); await self.shop.gift("mug"); return await self.shop.ship(order)'
NO_GIFT = "await self.shop.charge(5); return await self.shop.ship(order)"
DEARER = (
    'paid = await self.shop.charge(6); await self.shop.gift("mug"); await self.shop.ship(order); return paid'
)


@pytest.fixture
def till(tmp_path: Path, sqlite_template: Path) -> Till:
    return Till(tmp_path, sqlite_template)


def released(till: Till, program: str) -> None:
    """Release another version of the program."""
    (till.folder / "till.py").write_text(SOURCE.replace("PROGRAM", program))


def diverged_run(till: Till, later: str) -> str:
    """A run that waited when a release came that cannot go on with it."""
    released(till, FIRST)
    called = till.call("run", "seller", "A-1")
    found = re.search(r"\b[0-9a-f]{32}\b", called.err)
    assert called.code == 3, called.err
    assert found
    released(till, later)
    till.call("runs", "resume", found[0])
    return found[0]


def test_a_diverged_run_shows_both_sides_the_line_and_the_ways_out(till: Till) -> None:
    run = diverged_run(till, NO_GIFT)
    page = steady(till.call("runs", "show", run).out, RUN=run)
    about, _, rest = page.partition("\n\n")
    assert "status   diverged from its record\n" in about
    assert rest.startswith(
        "diverged\n"
        "run/tool:ship#1: the tool_call 'tool:gift' is recorded, and the program asks for the tool_call 'ship'\n"
        "           RECORDED         ASKED\n"
        "kind       tool_call        tool_call\n"
        "label      tool:gift        tool:ship\n"
        "number     2                2\n"
        'arguments  {"what": "mug"}  {"order": "A-1"}\n'
    )
    row = re.search(r"^row +(\d+) +-$", rest, re.MULTILINE)
    assert row
    assert "asked at till.py:39 in execute\n" in rest
    assert "  pilotage runs resolve RUN --skip run/tool:gift#1 --reason '…'\n" in rest
    assert f"  pilotage runs resolve RUN --fork-at {row[1]} --reason '…'\n" in rest
    assert "waits for" not in page
    assert str(till.folder) not in page
    listed = till.call("runs", "list").out
    assert "diverged from its record" in listed
    (told,) = [each for each in till.call("runs", "events", run, "--json").lines if "divergence" in str(each)]
    assert told["metadata"]["divergence"]["recorded"]["label"] == "tool:gift"


def test_a_call_is_skipped_and_the_run_comes_to_its_end(till: Till) -> None:
    run = diverged_run(till, NO_GIFT)
    resolved = till.call("runs", "resolve", run[:8], "--skip", "tool:gift#1", "--reason", "no gifts any more")
    assert (resolved.code, resolved.out) == (0, "resolved: tool:gift#1 is skipped\n")
    assert resolved.err == f"a worker continues the run, or: pilotage runs resume {run[:12]}\n"
    assert till.call("runs", "verify", run).code == 0
    assert till.call("runs", "resume", run).code == 3
    assert till.call("runs", "approve", run, "--resume").out == "ship A-1\n"
    assert till.ledger == ["charge 5", "gift mug", "ship A-1"]
    assert till.call("runs", "verify", run).code == 0
    assert "skip by ada: no gifts any more" in till.call("runs", "show", run).out


def test_a_call_gets_a_result_and_the_run_goes_on_here(till: Till) -> None:
    run = diverged_run(till, DEARER)
    refused = till.call("runs", "resolve", run, "--done", "tool:charge#1", "--result", "5", "--reason", "x")
    assert refused.code != 0
    assert 'schema {"title":' in refused.err
    done = ("--done", "tool:charge#1", "--result", '"charged 6 by hand"')
    resolved = till.call("runs", "resolve", run, *done, "--reason", "charged by hand", "--resume")
    assert resolved.code == 3, resolved.err
    assert till.call("runs", "approve", run, "--resume").out == "charged 6 by hand\n"
    assert till.ledger == ["charge 5", "gift mug", "ship A-1"]
    assert till.call("runs", "verify", run).code == 0


def test_a_fork_begins_before_the_row(till: Till) -> None:
    run = diverged_run(till, DEARER)
    resolved = till.call("runs", "resolve", run, "--fork-at", "2", "--reason", "charge anew", "--json")
    fork = resolved.json["run"]["id"]
    assert resolved.json["resolved"] == run != fork
    assert till.call("runs", "resume", fork).code == 3
    assert till.ledger == ["charge 5", "gift mug", "charge 6", "gift mug"]
    assert till.call("runs", "show", run, "--json").json["run"]["reason"] == "diverged"
    assert till.call("runs", "verify", run).code == till.call("runs", "verify", fork).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give one of --skip"),
        (("--skip", "a", "--fork-at", "2"), "give one of --skip"),
        (("--done", "tool:charge#1"), "--done and --result go together"),
        (("--done", "tool:charge#1", "--result", "{"), "--result is no JSON"),
        (("--skip", "tool:sell#1"), "has no recorded call 'tool:sell#1'"),
    ],
)
def test_a_decision_that_is_none_is_refused(till: Till, options: tuple[str, ...], words: str) -> None:
    run = diverged_run(till, NO_GIFT)
    refused = till.call("runs", "resolve", run, *options, "--reason", "because")
    assert refused.code != 0
    assert words in refused.err
    assert till.call("runs", "show", run, "--json").json["run"]["reason"] == "diverged"
