"""`pilotage doctor`: what is looked at, what is off, what to do."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.till import Called, Till

QUIET = {
    "PILOTAGE_APP": "",
    "PILOTAGE_DATABASE_URL": "",
    "PILOTAGE_MODEL_BASE_URL": "",
    "PILOTAGE_MODEL_NAME": "",
    "PILOTAGE_SEALING_KEY_FILE": "",
}


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


@pytest.fixture
def models(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that serves one model, on the wire of messages and others."""

    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "small", "max_model_len": 4096}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.send_response(422 if self.path in ("/v1/messages", *spoken) else 404)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    spoken = getattr(request, "param", ["/v1/chat/completions"])
    with http.server.HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def doctor(till: Till, *words: str, **environ: str) -> Called:
    return till.call("doctor", *words, environ={**QUIET, **environ})


def found(called: Called) -> dict[str, str]:
    return {each["what"]: each["health"] for each in called.json}


def test_where_nothing_is_off_the_exit_code_says_so(till: Till) -> None:
    called = doctor(till, PILOTAGE_APP="till:app")
    assert called.code == 0
    lines = called.out.splitlines()
    assert lines[0].startswith("✓  pilotage     0.")
    assert (
        "✓  plugins      agent, agui, anthropic, mcp, models, openai, pilotage.adapters.sqlalchemy, runtime, sealing"
        in lines
    )
    assert "✓  database     sqlite:///.pilotage/pilotage.db: made by the first durable run" in lines
    assert "✓  application  till: no problems" in lines
    assert "✓  model        OfflineModel, of application 'till'" in lines
    assert not (till.folder / ".pilotage").exists()


def test_what_is_not_there_and_may_be_meant_so_is_a_note(till: Till) -> None:
    called = doctor(till)
    assert called.code == 0
    healths = found(doctor(till, "--json"))
    assert (healths["model"], healths["application"]) == ("note", "note")
    assert (
        "·  model        PILOTAGE_MODEL_BASE_URL is not set: an agent without an application runs with the offline"
        in called.out
    )
    assert (
        "·  application  none is named\n                Name it: --app MODULE:NAME, or PILOTAGE_APP.\n"
        in called.out
    )


def test_the_database_of_the_application_counts_more_than_that_of_the_environment(till: Till) -> None:
    (till.folder / "own.py").write_text(
        "from pilotage.adapters.sqlalchemy import DatabaseSettings\n"
        "from till import *\n"
        'app = Application("own").add(Desk, Payments, OfflineModel(), DatabaseSettings("sqlite:///own.db")).load_plugins()\n'
    )
    assert "sqlite:///own.db: made by" in doctor(till, "--app", "own:app").out


def test_a_server_that_serves_the_model_is_well(till: Till, models: str) -> None:
    called = doctor(till, PILOTAGE_MODEL_BASE_URL=models, PILOTAGE_MODEL_NAME="small")
    assert called.code == 0
    assert (
        f"✓  model        {models} serves small, context of 4096 tokens; it speaks chat, messages"
        in called.out
    )


@pytest.mark.parametrize("models", [[]], indirect=True)
def test_a_server_that_speaks_another_wire_is_off(till: Till, models: str) -> None:
    called = doctor(till, PILOTAGE_MODEL=f"chat:small@{models}")
    assert called.code == 1
    assert f"{models} does not speak chat. It speaks messages" in called.out
    assert "Use AnthropicModel." in called.out
    called = doctor(till, PILOTAGE_MODEL=f"anthropic:small@{models}")
    assert (called.code, f"{models} serves small; it speaks messages" in called.out) == (0, True)


def test_a_server_that_serves_other_models_is_off(till: Till, models: str) -> None:
    called = doctor(till, PILOTAGE_MODEL_BASE_URL=models, PILOTAGE_MODEL_NAME="large")
    assert called.code == 1
    assert "does not serve 'large', but 'small'" in called.out


@pytest.mark.parametrize(
    ("environ", "what", "words"),
    [
        (
            {"PILOTAGE_MODEL_BASE_URL": "http://127.0.0.1:9/v1", "PILOTAGE_MODEL_NAME": "x"},
            "model",
            "the model's server cannot be reached",
        ),
        ({"PILOTAGE_MODEL_BASE_URL": "http://127.0.0.1:9/v1"}, "model", "PILOTAGE_MODEL_NAME is not."),
        ({"PILOTAGE_MODEL": "openai:large"}, "model", "Set OPENAI_API_KEY."),
        ({"PILOTAGE_MODEL": "anthropic:large"}, "model", "Set ANTHROPIC_API_KEY."),
        ({"PILOTAGE_MODEL": "chat:large"}, "model", "Set PILOTAGE_MODEL_BASE_URL, or write chat:large@http"),
        ({"PILOTAGE_MODEL": "large"}, "model", "'large' is no name of a model."),
        (
            {"PILOTAGE_DATABASE_URL": "postgresql://ada:s3cret@127.0.0.1:1/shop"},
            "database",
            "postgresql://***@127.0.0.1:1/shop cannot be reached",
        ),
        ({"PILOTAGE_DATABASE_URL": "nonsense"}, "database", "'nonsense' is no address of a database."),
        ({"PILOTAGE_DATABASE_POOL_SIZE": "many"}, "database", "PILOTAGE_DATABASE_POOL_SIZE is 'many'."),
        ({"PILOTAGE_DATABSE_URL": "sqlite:///x"}, "settings", "Did you mean PILOTAGE_DATABASE_URL?"),
        ({"PILOTAGE_SEALING_KEY_FILE": "no.key"}, "key", "key file 'no.key' does not exist."),
        ({"PILOTAGE_APP": "nowhere:app"}, "application", "Run this where 'nowhere' can be imported."),
    ],
)
def test_what_is_off_is_named_with_the_way_out(
    till: Till, environ: dict[str, str], what: str, words: str
) -> None:
    called = doctor(till, **environ)
    assert called.code == 1
    (line,) = [each for each in called.out.splitlines() if each.startswith(f"✗  {what}")]
    assert words in called.out[called.out.index(line) :]
    assert "s3cret" not in called.out
    assert found(doctor(till, "--json", **environ))[what] == "off"


def test_an_application_that_cannot_start_is_off(till: Till) -> None:
    (till.folder / "broken.py").write_text(
        'from till import *\napp = Application("broken").add(Desk, OfflineModel()).load_plugins()\n'
    )
    called = doctor(till, "--app", "broken:app")
    assert called.code == 1
    assert "broken: Desk -> Payments: nothing provides Payments." in called.out


def test_tables_of_another_version_are_off(till: Till) -> None:
    till.waiting_run()
    database = sqlite3.connect(till.folder / ".pilotage" / "pilotage.db")
    with database:
        database.execute("UPDATE pilotage_schema SET version_num = '0000'")
    database.close()
    called = doctor(till)
    assert called.code == 1
    assert "Run: pilotage db upgrade." in called.out
