"""What the doctor makes of extras and variables."""

from __future__ import annotations

import re

import pytest
from tests.docs.blocks import ROOT

from pilotage.cli.handlers.doctor import look_at_variables, packages_of_extras

_VARIABLE = re.compile(r"\bPILOTAGE_[A-Z_]*[A-Z]\b")
VARIABLES = sorted(
    {name for file in (ROOT / "src").rglob("*.py") for name in _VARIABLE.findall(file.read_text())}
)


def test_extras_are_read_from_what_a_package_says_of_itself() -> None:
    requirements = [
        "pydantic>=2.12",
        "ag-ui-protocol<2,>=1.0; extra == 'agui'",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        'sqlalchemy>=2.1; python_version >= "3.11" and extra == "postgres"',
    ]
    assert packages_of_extras(requirements) == {
        "agui": ["ag-ui-protocol"],
        "postgres": ["psycopg", "sqlalchemy"],
    }


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_ours_is_not_taken_for_a_slip(name: str) -> None:
    assert list(look_at_variables({name: "x"})) == []


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("PILOTAGE_DATABSE_URL", "PILOTAGE_DATABASE_URL"),
        ("PILOTAGE_MODEL_BASEURL", "PILOTAGE_MODEL_BASE_URL"),
        ("PILOTAGE_MODEL_NAM", "PILOTAGE_MODEL_NAME"),
        ("PILOTAGE_TENNANT", "PILOTAGE_TENANT"),
    ],
)
def test_a_slip_of_the_hand_is_noticed(slip: str, meant: str) -> None:
    (found,) = look_at_variables({slip: "x", "PATH": "y"})
    assert found.remedy == f"Did you mean {meant}?"
