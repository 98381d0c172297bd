"""Streams that are open side by side: how many may be, how long they rest, and their common end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from pilotage import Application, Principal
from pilotage.adapters.asgi import ServerStoppingError
from pilotage.adapters.fastapi import HttpSettings
from pilotage.inbound.limits import OpenStreams
from pilotage.inbound.problems import TooManyOwnStreamsError, TooManyStreamsError

ADA, EVE = Principal("ada"), Principal("eve")
BOUNDS = HttpSettings(max_streams=3, max_streams_per_principal=2)


async def test_one_principal_has_a_part_of_all_streams() -> None:
    streams = OpenStreams()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(streams.entered(ADA, BOUNDS))
        with pytest.raises(TooManyOwnStreamsError, match="2 streams of yours are open"):
            stack.enter_context(streams.entered(ADA, BOUNDS))
        stack.enter_context(streams.entered(EVE, BOUNDS))
        with pytest.raises(TooManyStreamsError):
            stack.enter_context(streams.entered(EVE, BOUNDS))
        assert streams.count == 3
    assert streams.count == 0
    with streams.entered(ADA, BOUNDS):
        assert streams.count == 1


async def test_people_of_the_same_name_in_different_tenants_are_different_people() -> None:
    streams, bounds = OpenStreams(), HttpSettings(max_streams_per_principal=1)
    with streams.entered(Principal("ada", "acme"), bounds), streams.entered(Principal("ada", "navy"), bounds):
        assert streams.count == 2


async def test_all_are_told_to_end_and_no_more_begin() -> None:
    streams = OpenStreams()
    with streams.entered(ADA, BOUNDS) as end:
        assert not end.done()
        streams.close()
        assert end.done()
        with pytest.raises(ServerStoppingError), streams.entered(EVE, BOUNDS):
            pytest.fail("it was let in")
    await streams.empty()
    streams.open()
    with streams.entered(EVE, BOUNDS) as end:
        assert not end.done()


async def test_few_readers_do_not_rest_and_many_rest_so_that_they_take_a_small_part_together() -> None:
    streams, bounds = OpenStreams(), HttpSettings(max_streams=2_000, max_streams_per_principal=2_000)
    cost = 20e-6
    for _ in range(1_000):
        streams.wrote(cost)
        streams.wrote(3.0)  # it waited for its client
    with ExitStack() as stack:
        stack.enter_context(streams.entered(ADA, bounds))
        assert streams.rest() == 0
        for _ in range(999):
            stack.enter_context(streams.entered(ADA, bounds))
        rests = [streams.rest() for _ in range(1_000)]
    together = 1_000 * cost / (sum(rests) / len(rests))
    assert 0.02 < together < 0.1
    assert len({round(rest, 3) for rest in rests}) > 100
    assert max(rests) <= 3 * min(rests)


def test_an_application_has_its_streams_as_long_as_it_is_there() -> None:
    app = Application("shop")
    assert OpenStreams.of(app) is OpenStreams.of(app)
    assert OpenStreams.of(app) is not OpenStreams.of(Application("shop"))
