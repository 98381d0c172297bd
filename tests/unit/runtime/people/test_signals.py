"""What a model is shown of signals, and how far that may be trusted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.signals import AgentSignal, AgentSignalKind
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


def test_only_an_event_may_be_a_strangers_word() -> None:
    labels = {kind: label_of(signal(kind, text="x")) for kind in MESSAGES}
    event = labels.pop(AgentSignalKind.EXTERNAL_EVENT)
    origin = frozenset({"signal:external_event"})
    assert event == TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, origin)
    assert set(labels.values()) == {TrustLabel()}


def test_a_signal_comes_back_from_its_row() -> None:
    sent = signal(AgentSignalKind.EXTERNAL_EVENT, text="fire", floors=[1, {"a": None}])
    assert contract_value(AgentSignal, to_json_value(sent)) == sent
