"""Every change of the table: a run of the release before is paused at each place and taken up by the next release."""

from __future__ import annotations

import pytest

import tests.replay.changes as _changes
from tests.replay.releases import CHANGES, Change, differences

assert _changes.__all__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_release_leads_to_the_verdict_that_is_written_beside_it(change: Change) -> None:
    assert differences(change) == []


def test_there_are_enough_changes() -> None:
    assert len(CHANGES) >= 40
