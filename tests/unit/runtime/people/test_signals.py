"""What a model is shown of signals, and how far that may be trusted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.spec import UNTRUSTED_SIGNALS
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.journal.record_fields import contract_value
from pilotage.runtime.people.signals import MESSAGES, label_of, message_of
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel


def signal(kind: AgentSignalKind, **payload: object) -> AgentSignal:
    given: JsonObject = {name: to_json_value(each) for name, each in payload.items()}
    return AgentSignal("s1", "r1", kind, given, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("kind", [AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION])
def test_users_speak_for_themselves(kind: AgentSignalKind) -> None:
    assert message_of(signal(kind, text="hurry")) == ModelMessage.user("hurry")
    assert message_of(signal(kind, message="hurry", urgent=True)) == ModelMessage.user("hurry")
    assert message_of(signal(kind)) == ModelMessage.user("")


@pytest.mark.parametrize("kind", [AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP])
def test_what_nobody_said_is_evidence_in_a_frame(kind: AgentSignalKind) -> None:
    frame = f'<context id="s1" source="{kind.value}" role="evidence" freshness="current">\n| %s\n</context>'
    shown = message_of(signal(kind, text="fire"))
    assert shown == ModelMessage.evidence(frame % "fire", source=kind.value)
    assert message_of(signal(kind, text="fire", floor=3)).text == frame % '{"floor":3,"text":"fire"}'
    assert message_of(signal(kind)).text == frame % "{}"


def test_an_event_and_a_wake_up_may_be_a_strangers_word() -> None:
    labels = {kind: label_of(signal(kind, text="x"), UNTRUSTED_SIGNALS) for kind in MESSAGES}
    for kind in (AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP):
        origin = frozenset({f"signal:{kind.value}"})
        assert labels.pop(kind) == TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, origin)
    assert set(labels.values()) == {None}


def test_an_agent_may_declare_which_signals_are_untrusted() -> None:
    wake_up = signal(AgentSignalKind.SCHEDULER_WAKE_UP, text="x")
    assert label_of(wake_up, ()) is None
    assert label_of(signal(AgentSignalKind.USER_MESSAGE), [AgentSignalKind.USER_MESSAGE]) is not None


def test_a_signal_comes_back_from_its_row() -> None:
    sent = signal(AgentSignalKind.EXTERNAL_EVENT, text="fire", floors=[1, {"a": None}])
    assert contract_value(AgentSignal, to_json_value(sent)) == sent
