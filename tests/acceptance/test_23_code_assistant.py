"""Use case 23: the code assistant, all together: real files, a real shell, real git, real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tools.terminal_picture import picture

from examples.code_assistant.application import code_assistant
from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.declarative import DeclarativeCodeAssistant
from examples.code_assistant.demo.repository import FILES, KEY, git
from examples.code_assistant.serving import served
from pilotage import AgentSignalKind, AgentStatus, Principal
from pilotage.adapters.fastapi import BearerTokens
from pilotage.agent import AgentEvidenceKind
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns
from tests.adapters.openai.answers import about_server, streamed, whole
from tests.adapters.openai.replay_server import Answer, Seen, replaying

ROOT = Path(__file__).parents[2]
TOKEN = "a-long-random-token-for-ada"
SECRET = "token-of-the-workspace-0123"
BY_REVIEW = {CodeAssistant: "review", DeclarativeCodeAssistant: "ask_reviewer"}
GOAL = """search Helo and read settings.ini
then patch greeting.py old=Helo new=Hello
then run "python3 -m unittest -q"
then {review} "check the change"
then shell.command_with_token "sh publish.sh"
then git.commit message="Spell hello correctly\""""
CHANGING = ["workspace.patch", "shell.command", "shell.command_with_token", "git.commit"]


@pytest.fixture
def repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKSPACE_TOKEN", SECRET)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Greet people")
    return folder


@pytest.mark.parametrize("agent", [CodeAssistant, DeclarativeCodeAssistant])
async def test_both_variants_read_at_will_ask_before_they_change_and_leave_the_same_behind(
    repository: Path, agent: type[object]
) -> None:
    asked: list[str] = []
    said, run_id = "", ""
    while True:  # every answer is given in a process of its own
        async with code_assistant(repository, OfflineModel()) as app:
            runs = app.get(AgentRuns)
            goal = GOAL.format(review=BY_REVIEW[agent])
            run = await (runs.resume(run_id) if run_id else runs.start(agent, goal))
            run_id = run.id
            said += str([event async for event in run.events()])
            questions = await runs.questions(run_id)
            if not questions:
                state, evidence = await runs.get(run_id), await runs.evidence(run_id)
                rows = [await runs.verify(each.id) for each in (await runs.list()).runs]
                break
            (question,) = questions
            asked.append(question.prompt.split("'")[1])
            await runs.approve(question.id, resume=False)
    assert state.status is AgentStatus.COMPLETED
    assert asked == CHANGING
    assert "Hello" in (repository / "greeting.py").read_text()
    assert git(repository, "log", "--format=%s").splitlines() == ["Spell hello correctly", "Greet people"]
    assert len(rows) == 2  # the reviewer has a record of its own
    kinds = {each.kind for each in evidence}
    assert kinds >= {AgentEvidenceKind.MODEL, AgentEvidenceKind.TOOL, AgentEvidenceKind.APPROVAL}
    manifests = [each.payload.get("manifest") for each in evidence if each.kind is AgentEvidenceKind.MODEL]
    assert any(manifests)
    assert all(each.digest for each in evidence)
    stored = b"".join(file.read_bytes() for file in (repository / ".pilotage").glob("*.db*"))
    for secret in (SECRET, KEY):
        assert secret not in said
        assert secret.encode() not in stored


async def test_an_extra_instruction_a_refusal_and_a_cancellation_reach_it(repository: Path) -> None:
    async with code_assistant(repository, OfflineModel()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(CodeAssistant, "write notes.md: tea")
        await run.result()
        (question,) = await runs.questions(run.id)
        await runs.reject(question.id, comment="no notes here", resume=False)
        await runs.signal(run.id, AgentSignalKind.USER_MESSAGE, {"text": "git.status"})
        result = await (await runs.resume(run.id)).result()
        assert "git.status() gave ## main" in result.output.summary
        assert not (repository / "notes.md").exists()
        other = await runs.start(CodeAssistant, 'run "touch touched"')
        await other.result()
        assert await runs.cancel(other.id, reason="never mind")
        assert (await runs.get(other.id)).status is AgentStatus.CANCELLED
        assert not (repository / "touched").exists()


@pytest.fixture
def client(repository: Path) -> Iterator[TestClient]:
    app = code_assistant(repository, OfflineModel(), BearerTokens({TOKEN: Principal("ada")}))
    with TestClient(served(app), headers={"authorization": f"Bearer {TOKEN}"}) as client:
        yield client


def test_over_http_a_question_ends_the_stream_and_its_answer_goes_on(
    client: TestClient, repository: Path
) -> None:
    told = client.post("/assistant", json={"goal": "write notes.md: tea"}).text
    assert json.loads(told.strip().rpartition("data: ")[2])["kind"] == "approval"
    (run,) = client.get("/runs").json()["runs"]
    (question,) = client.get(f"/runs/{run['id']}/questions").json()["questions"]
    assert question["arguments"] == {"content": "tea", "path": "notes.md"}
    yes = {"request_id": question["id"], "decision": "approve"}
    assert client.post(f"/runs/{run['id']}/answers", json=yes).is_success
    assert client.post(f"/runs/{run['id']}/resume").is_success
    assert "event: run_finished" in client.get(f"/runs/{run['id']}/events").text
    assert (repository / "notes.md").read_text() == "tea"


def frames(client: TestClient, given: dict[str, Any]) -> list[dict[str, Any]]:
    lines = client.post("/agui", json={"threadId": "t-1", "messages": [], **given}).text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_over_ag_ui_a_question_is_an_interrupt(client: TestClient, repository: Path) -> None:
    words = {"id": "m-1", "role": "user", "content": "write notes.md: tea"}
    asked = frames(client, {"runId": "c-1", "messages": [words]})
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    yes = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"decision": "approve"}}
    done = frames(client, {"runId": "c-2", "resume": [yes]})
    assert done[-1]["outcome"] == {"type": "success"}
    assert (repository / "notes.md").read_text() == "tea"


@pytest.mark.slow
def test_the_demo_is_killed_in_a_commit_ends_well_and_looks_as_the_readme_shows_it() -> None:
    coloured = {**os.environ, "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "examples.code_assistant.demo"]
    done = subprocess.run(
        command, cwd=ROOT, env=coloured, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "kill -9" in done.stdout
    assert "demo: ok" in done.stdout.splitlines()[-1]
    shown = (ROOT / "docs" / "images" / "demo.svg").read_text()
    assert shown == picture(done.stdout), "make picture draws it anew"


PLAN: list[tuple[str, dict[str, str]]] = [
    ("workspace__patch", {"path": "greeting.py", "old": "Helo", "new": "Hello"}),
    ("shell__command", {"command": "python3 -m unittest -q"}),
    ("review", {"question": "is it right?"}),
    ("shell__command_with_token", {"command": "sh publish.sh"}),
    ("git__commit", {"message": "Spell hello correctly"}),
]


def a_model(seen: Seen) -> Answer:
    """A server whose model fixes the word step by step, and reviews the change as it finds it."""
    if (facts := about_server(seen)) is not None:
        return facts
    asked = seen.json
    if not asked.get("stream"):
        return whole({"content": "It is right."})
    done = sum(message["role"] == "tool" for message in asked["messages"])
    if done == len(PLAN):
        return streamed({"content": "The word "}, {"content": "is spelt well now."})
    name, arguments = PLAN[done]
    call = {"name": name, "arguments": json.dumps(arguments)}
    calls = {"tool_calls": [{"index": 0, "id": f"call-{done}", "type": "function", "function": call}]}
    return streamed(calls, finish_reason="tool_calls")


@pytest.mark.slow
def test_the_demo_tells_the_same_story_with_a_model_server() -> None:
    with replaying(a_model) as server:
        named = {"PILOTAGE_MODEL_BASE_URL": server.base_url, "PILOTAGE_MODEL_NAME": "tiny"}
        command = [sys.executable, "-m", "examples.code_assistant.demo"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **named},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.stdout.endswith("demo: ok\n"), done.stdout
    assert "kill -9" in done.stdout
    assert "The word is spelt well now." in done.stdout
