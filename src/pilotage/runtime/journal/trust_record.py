"""How far what a record holds may be trusted: the label a run starts with, labels in records. Pure."""

from __future__ import annotations

from typing import cast

from pilotage.jsonvalue import JsonObject
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RUN_INPUT = TrustLabel(Integrity.USER, Confidentiality.PUBLIC, frozenset({"run input"}))
"""The label a run starts with. What users send is to be worked with, look-ups included: it is not private by itself."""

_TRUST = "trust"


def with_label(record: JsonObject, label: TrustLabel) -> JsonObject:
    """A record that says how far what it holds may be trusted; what every run starts with is not worth a word."""
    return record if label == RUN_INPUT else {**record, _TRUST: label.to_payload()}


def label_to_keep(label: TrustLabel) -> TrustLabel:
    """The label as it is kept with a turn of a conversation: neutral where it says no more than every run does."""
    return TrustLabel() if label == RUN_INPUT else label


def label_in(record: JsonObject) -> TrustLabel:
    """The label that `with_label` wrote, to be joined with what is known already."""
    return TrustLabel.from_payload(cast(JsonObject, record[_TRUST])) if _TRUST in record else TrustLabel()
