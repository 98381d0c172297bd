"""The page that lists settings and failures lists all of them, as they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from pilotage.adapters.model_http.error_mapping import _BY_STATUS
from pilotage.adapters.model_http.errors import failed
from pilotage.adapters.model_http.finish_reasons import GIVEN_UP, REASONS
from pilotage.adapters.openai import ModelFailure, ModelRetries, ModelTimeouts, settings

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "model-server.md").read_text()
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| `")}


def test_every_variable_is_on_the_page_and_no_other() -> None:
    source = inspect.getsource(settings).replace("{VLLM}", "PILOTAGE_VLLM_")
    read = {settings.BASE_URL, *re.findall(r"PILOTAGE_(?:MODEL|VLLM)_[A-Z_]*[A-Z]", source)}
    assert set(re.findall(r"PILOTAGE_(?:MODEL|VLLM)_[A-Z_]*[A-Z]", PAGE)) == read


@pytest.mark.parametrize("failure", ModelFailure)
def test_every_failure_is_on_the_page_with_whether_it_is_tried_again(failure: ModelFailure) -> None:
    row = ROWS[f"`{failure.value}`"]
    error = failed(failure)
    assert row.split("|")[3].strip().startswith("yes" if error.retryable else "no")
    assert row.split("|")[4].strip() == f"`{type(error).__name__}`"


@pytest.mark.parametrize(("status", "failure"), _BY_STATUS.items())
def test_every_status_is_on_the_page(status: int, failure: ModelFailure) -> None:
    assert str(status) in ROWS[f"`{failure.value}`"]


@pytest.mark.parametrize("reason", [*REASONS, *sorted(GIVEN_UP)])
def test_every_reason_to_finish_is_on_the_page(reason: str) -> None:
    assert f"`{reason}`" in PAGE.partition("## How a reply ends")[2]


def test_the_defaults_on_the_page_are_the_defaults() -> None:
    for name in ("connect", "first_token", "idle", "request"):
        row = next(row for row in ROWS.values() if f"`timeouts.{name}`" in row)
        assert row.split("|")[3].strip() == str(getattr(ModelTimeouts(), name))
    retries = ModelRetries()
    assert f"| {retries.first_pause}, {retries.longest_pause} |" in PAGE
