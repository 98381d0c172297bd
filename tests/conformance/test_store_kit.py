"""`StoreConformance` has every test of the kits it is made of."""

from __future__ import annotations

from collections import Counter

from pilotage.testing.conformance import StoreConformance


def test_no_test_of_a_kit_hides_one_of_another_kit() -> None:
    names = Counter(
        name for kit in StoreConformance.__mro__ for name in vars(kit) if name.startswith("test_")
    )
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 250
