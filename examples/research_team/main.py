"""Run the research team with a model that follows a script, and compare the report.

Run it: python examples/research_team/main.py
        python examples/research_team/team.py "ports"    (with the model server that the environment names)
"""

from __future__ import annotations

from team import Editor, Report

from pilotage import run_sync
from pilotage.testing import ScriptedModel, calls, says

PORT = "A port is an interface that the core owns."
REPORT = {"title": "Ports", "findings": [PORT], "is_confirmed": True}


def main() -> None:
    """The editor asks both teammates, and each of them uses its tool."""
    model = ScriptedModel(
        [
            calls("ask_librarian", task="ports"),
            calls("search", topic="ports"),
            says(PORT),
            calls("ask_fact_checker", task=PORT),
            calls("is_known", sentence=PORT),
            says("yes"),
            says(output=REPORT),
        ]
    )
    result = run_sync(Editor, "a report about ports", model=model)
    print(result.output)
    assert result.output == Report("Ports", [PORT], is_confirmed=True)
    model.assert_complete()
    print("demo: ok")


if __name__ == "__main__":
    main()
