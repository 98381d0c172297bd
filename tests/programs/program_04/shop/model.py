"""The model of the shop; its store is what the installed adapter contributes."""

from __future__ import annotations

from pilotage import IAgentModel, Pod
from pilotage.testing import ScriptedModel, calls, says

MODEL = ScriptedModel([[says("One moment. "), calls("pay", to="DE-1", amount="12.50")], says("Done.")])


@Pod
def model() -> IAgentModel:
    return MODEL
