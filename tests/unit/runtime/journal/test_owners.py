"""Names of owners: which of them are provably dead, and what is no proof."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pilotage.runtime.journal.lease import is_provably_dead, owner_name, process_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_that_lives_is_not_dead(child: subprocess.Popen[bytes]) -> None:
    assert not is_provably_dead(owner_name("a"))
    assert not is_provably_dead(owner_name("a", child.pid))


def test_a_process_that_is_only_stopped_is_not_dead(child: subprocess.Popen[bytes]) -> None:
    name = owner_name("a", child.pid)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert not is_provably_dead(name)


def test_a_killed_process_is_dead_before_and_after_it_is_collected(child: subprocess.Popen[bytes]) -> None:
    name = owner_name("a", child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_provably_dead(name)
    child.wait()
    assert is_provably_dead(name)


def test_a_process_id_that_was_given_away_again_is_no_sign_of_life(child: subprocess.Popen[bytes]) -> None:
    name, found = owner_name("a", child.pid), process_of(owner_name("a", child.pid))
    assert found is not None
    earlier = name.removesuffix(f"-{found.started}") + f"-{found.started - 1}"
    assert is_provably_dead(earlier)


def test_a_process_of_another_place_is_not_provably_dead(child: subprocess.Popen[bytes]) -> None:
    name, found = owner_name("a", child.pid), process_of(owner_name("a", child.pid))
    assert found is not None
    child.kill()
    child.wait()
    elsewhere = "0" * 16 if found.place != "0" * 16 else "1" * 16
    assert is_provably_dead(name)
    assert not is_provably_dead(name.replace(found.place, elsewhere))


@pytest.mark.parametrize(
    "owner",
    [
        "",
        "ada",
        "host:1:uid",
        "host:0:u:0123456789abcdef-5",
        "host:-1:u:0123456789abcdef-5",
        "h:99999999999:u:",
    ],
)
def test_a_name_of_another_form_proves_nothing(owner: str) -> None:
    assert process_of(owner) is None
    assert not is_provably_dead(owner)


def test_an_id_that_no_process_can_have_proves_nothing() -> None:
    found = process_of(owner_name("a"))
    assert found is not None
    assert not is_provably_dead(f"host:9999999999:u:{found.place}-1")
