"""Use case 4: at start-up everything that is wrong is said at once, and nothing has run yet."""

from __future__ import annotations

from typing import Protocol

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, IAgentModel, Pod, RecoveryStrategy
from pilotage.agent.stereotype import initialize
from pilotage.errors import ApplicationStartError


class Bank(Protocol):
    def pay(self) -> None: ...


@Pod
class Payments:
    made = 0

    def __init__(self, bank: Bank) -> None:
        self.bank = bank


@Pod
class Ledger:
    def __init__(self) -> None:
        Payments.made += 1


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Refunds:
    def __init__(self, payments: Payments, model: IAgentModel, ledger: Ledger) -> None:
        self.payments, self.model, self.ledger = payments, model, ledger

    async def execute(self, order: str) -> str:
        return order


async def test_a_missing_pod_a_missing_model_and_a_missing_store_are_one_report() -> None:
    app = Application("shop").add(Refunds, Payments, Ledger)
    initialize(app)
    with pytest.raises(ApplicationStartError) as caught:
        async with app:
            pass
    report = str(caught.value)
    assert "problems in application 'shop'" in report
    assert "Refunds -> Payments -> Bank: nothing provides Bank" in report
    assert 'pip install "pilotage[openai]"' in report
    assert 'pip install "pilotage[sqlalchemy]"' in report
    assert Payments.made == 0
