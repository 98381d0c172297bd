"""More than 2,000 media, whole, lying, cut, damaged, huge and foreign: the right part, or a refusal of the right kind."""

from __future__ import annotations

import random
import time
from collections import Counter

from pilotage.agent import MediaPart, MediaSafetyLimits
from pilotage.agent.media import taken_in
from pilotage.errors import MediaRefusedError
from tests.media.corpus import FOREIGN, HUGE, WHOLE, Sample, samples

LIMITS = MediaSafetyLimits()


def verdict(sample: Sample) -> str:
    """What becomes of a sample: the type of its part, or the code of its refusal."""
    try:
        part = taken_in(MediaPart.of(sample.content or b" ", sample.declared), sample.content, LIMITS)
    except MediaRefusedError as error:
        return error.code
    assert part.size == len(sample.content)
    return part.media_type


def test_each_becomes_what_its_maker_knows() -> None:
    seed = random.randrange(10**6)  # noqa: S311 - no secret
    wrong, makers = list[str](), Counter[str]()
    for sample in samples(seed):
        makers[sample.maker.partition(",")[0]] += 1
        expected = {sample.media_type} if sample.media_type is not None else sample.refusals
        found = verdict(sample)
        # Of a text, what is said of it says which kind of text it is.
        if found not in expected:
            wrong.append(
                f"{sample.maker}, given as {sample.declared!r}: {found}, not {sorted(map(str, expected))}"
            )
    assert not wrong, f"seed {seed}: {len(wrong)} of {makers.total()}, such as {wrong[:5]}"
    assert makers.total() > 2_000
    assert len(makers) >= len({*WHOLE, *HUGE, *FOREIGN}) > 12


def test_hostile_bytes_of_any_kind_end_soon_and_in_one_way() -> None:
    seed = random.randrange(10**6)  # noqa: S311 - no secret
    r = random.Random(seed)  # noqa: S311 - no secret
    beginnings = [make(r)[0] for make in WHOLE.values()]
    begun = time.process_time()
    for _ in range(600):
        content = bytearray(r.choice(beginnings))
        for _ in range(r.randint(1, 8)):
            content[r.randrange(len(content))] = r.randrange(256)
        sample = Sample("changed", bytes(content), "image/png", None)
        assert verdict(sample), f"seed {seed}"
    assert time.process_time() - begun < 20
