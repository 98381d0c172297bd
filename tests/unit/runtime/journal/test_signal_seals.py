"""Signals as they are stored: what is sealed of them, and that it opens only where it belongs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal.seals import SEALED, SignalSeals
from pilotage.testing import MemorySealer

RUN = RunKey("default", "run-1")
SEALER = MemorySealer(b"only for tests")
SEALS = SignalSeals(SEALER, RUN)
ANSWER: JsonObject = {
    "request_id": "q-1",
    "decision": "modify",
    "modified_payload": {"iban": "DE00 \ud83d"},
    "comment": None,
}


def signal(kind: AgentSignalKind = AgentSignalKind.APPROVAL_DECISION, **payload: JsonValue) -> AgentSignal:
    return AgentSignal("s-1", "run-1", kind, payload)


def test_an_answer_is_sealed_but_for_its_signposts_and_opens_as_it_was_sent() -> None:
    sent = signal(**ANSWER)
    stored = SEALS.closed(sent)
    assert set(stored.payload) == {"request_id", "decision", SEALED}
    assert "DE00" not in str(stored)
    assert SEALS.opened(stored) == sent


def test_what_counts_is_inside_the_seal_and_not_beside_it() -> None:
    sent = signal(**ANSWER)
    stored = SEALS.closed(sent)
    forged = replace(stored, payload={**stored.payload, "decision": "approve"})
    assert SEALS.opened(forged) == sent


@pytest.mark.parametrize("payload", [{}, {"comment": None}], ids=["nothing", "no comment"])
def test_an_answer_that_says_no_more_is_stored_as_it_is(payload: JsonObject) -> None:
    sent = signal(request_id="q-1", decision="approve", **payload)
    assert SEALS.closed(sent) is sent


MESSAGES = [kind for kind in AgentSignalKind if kind.lane.value == "message"]
CONTROL = [AgentSignalKind.CANCEL, AgentSignalKind.PAUSE, AgentSignalKind.RESUME]


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_is_sealed_as_a_whole_where_the_agent_redacts(kind: AgentSignalKind) -> None:
    sent = signal(kind, text="my card", decision="none")
    stored = SEALS.closed(sent, is_redacted=True)
    assert set(stored.payload) == {SEALED}
    assert SEALS.opened(stored) == sent
    assert SEALS.closed(sent) is sent
    assert SEALS.closed(signal(kind), is_redacted=True).payload == {}


@pytest.mark.parametrize("kind", CONTROL)
def test_the_other_control_signals_have_nothing_to_hide(kind: AgentSignalKind) -> None:
    sent = signal(kind, reason="wrong branch")
    assert SEALS.closed(sent, is_redacted=True) is sent


def test_without_a_sealer_signals_are_stored_as_they_are() -> None:
    sent = signal(**ANSWER)
    assert SignalSeals(None, RUN).closed(sent, is_redacted=True) is sent
    assert SignalSeals(None, RUN).opened(sent) is sent


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda stored: (SignalSeals(SEALER, RunKey("default", "run-2")), stored),
        lambda stored: (SignalSeals(SEALER, RunKey("other", "run-1")), stored),
        lambda stored: (SEALS, replace(stored, id="s-2")),
        lambda stored: (SEALS, replace(stored, kind=AgentSignalKind.USER_MESSAGE)),
        lambda stored: (SignalSeals(None, RUN), stored),
        lambda stored: (SignalSeals(MemorySealer(b"another key"), RUN), stored),
    ],
    ids=["another run", "another tenant", "another signal", "another kind", "no sealer", "another key"],
)
def test_a_seal_opens_in_its_own_place_and_with_its_own_key(elsewhere: object) -> None:
    assert callable(elsewhere)
    seals, stored = elsewhere(SEALS.closed(signal(**ANSWER)))
    with pytest.raises(RecordSealError) as caught:
        seals.opened(stored)
    assert "DE00" not in str(caught.value)


@pytest.mark.parametrize("broken", ["text", 3, None, {}, {"key_id": 1, "ciphertext": "x"}, {"key_id": "x"}])
def test_what_is_no_seal_does_not_open(broken: JsonValue) -> None:
    with pytest.raises(RecordSealError):
        SEALS.opened(signal(request_id="q-1", **{SEALED: broken}))
