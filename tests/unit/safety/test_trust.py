"""Trust labels form a join-semilattice and survive JSON."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

LABELS = st.builds(
    TrustLabel,
    st.sampled_from(Integrity),
    st.sampled_from(Confidentiality),
    st.frozensets(st.sampled_from(["web", "mail", "db"])),
)


def test_the_join_has_the_least_integrity_the_most_confidentiality_and_all_origins() -> None:
    page = TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, frozenset({"web"}))
    record = TrustLabel(Integrity.TRUSTED, Confidentiality.SECRET, frozenset({"db"}))
    joined = page.join(record)
    assert joined == TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, frozenset({"web", "db"}))
    assert joined.is_untrusted
    assert joined.is_secret
    assert not joined.is_trusted
    assert not joined.is_public


def test_without_content_nothing_is_distrusted() -> None:
    assert TrustLabel.join_all([]) == TrustLabel()
    assert TrustLabel().is_trusted
    assert TrustLabel().is_public


@given(LABELS, LABELS, LABELS)
def test_the_order_of_joining_does_not_matter(a: TrustLabel, b: TrustLabel, c: TrustLabel) -> None:
    assert a.join(b) == b.join(a)
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(a) == a
    assert a.join(TrustLabel()) == a
    assert TrustLabel.join_all([c, a, b]) == TrustLabel.join_all([a, b, c])


@given(LABELS, LABELS)
def test_a_join_never_gains_trust_or_loses_secrecy(a: TrustLabel, b: TrustLabel) -> None:
    joined = a.join(b)
    assert joined.is_trusted <= (a.is_trusted and b.is_trusted)
    assert joined.is_secret == (a.is_secret or b.is_secret)


@given(LABELS)
def test_a_label_survives_the_way_through_json(label: TrustLabel) -> None:
    assert TrustLabel.from_payload(label.to_payload()) == label
