"""Undoing things in reverse, whatever fails."""

from __future__ import annotations

import pytest

from pilotage.container.lifecycle import ILifecycle, Teardown, attach, raise_failures


class Log(list[str]):
    def step(self, name: str) -> None:
        self.append(name)

    def fail(self) -> None:
        raise OSError("stuck")

    async def wait(self, name: str) -> None:
        self.append(name)


def test_steps_are_undone_last_first_in_spite_of_failures() -> None:
    log, teardown = Log(), Teardown()
    teardown.push("first", lambda: log.step("first"))
    teardown.push("second", log.fail)
    teardown.push("third", lambda: log.step("third"))
    (failure,) = teardown.close()
    assert log == ["third", "first"]
    assert failure.__notes__ == ["second failed"]
    assert teardown.close() == []


async def test_steps_that_wait_are_waited_for() -> None:
    log, teardown = Log(), Teardown()
    teardown.push("first", lambda: log.wait("first"))
    teardown.push("second", log.fail)
    teardown.push("third", lambda: log.step("third"))
    assert [str(failure) for failure in await teardown.aclose()] == ["stuck"]
    assert log == ["third", "first"]


def test_failures_are_raised_together() -> None:
    raise_failures("nothing", [])
    with pytest.raises(ExceptionGroup, match="two things") as caught:
        raise_failures("two things", [OSError("a"), ValueError("b")])
    assert len(caught.value.exceptions) == 2


def test_a_request_to_exit_is_raised_as_itself() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_failures("two things", [OSError("a"), KeyboardInterrupt()])


def test_failures_are_noted_on_the_error_that_matters() -> None:
    error, failure = ValueError("first"), OSError("second")
    failure.add_note("closing failed")
    attach(error, [failure])
    assert error.__notes__ == ["Also, closing failed: OSError: second"]


async def test_a_lifecycle_without_hooks_of_its_own_does_nothing() -> None:
    class Idle(ILifecycle): ...

    assert await Idle().start() is None
    assert await Idle().stop() is None
