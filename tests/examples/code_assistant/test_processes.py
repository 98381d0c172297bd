"""Commands with bounds: time, output, environment, and a group that dies with the call, even with our own process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.code_assistant.processes import Finished, ProcessLimits, clean_environment, run_process

ROOT = Path(__file__).parents[3]
LONG = 600.0


async def sh(folder: Path, line: str, **bounds: float) -> Finished:
    limits = ProcessLimits(bounds.get("seconds", LONG), int(bounds.get("output_bytes", 10_000)))
    return await run_process(["/bin/sh", "-c", line], folder, clean_environment(folder), limits)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something outside of this process; only what hangs takes two minutes."""
    async with asyncio.timeout(120):
        while not is_so():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not fetched yet does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def read_pid(file: Path) -> int:
    return int(file.read_text())


def has_pid(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


async def test_it_gives_the_exit_code_and_both_streams(tmp_path: Path) -> None:
    assert await sh(tmp_path, "echo out; echo err >&2; exit 3") == Finished(3, "out\nerr\n")


async def test_there_is_no_keyboard(tmp_path: Path) -> None:
    assert await sh(tmp_path, "cat; echo end") == Finished(0, "end\n")


async def test_the_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", "swordfish")
    done = await sh(tmp_path, "env | cut -d= -f1 | sort")
    assert set(done.output.split()) <= {
        "PATH",
        "LANG",
        "HOME",
        "PYTHONDONTWRITEBYTECODE",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }
    assert (await sh(tmp_path, "cd; pwd")).output == f"{tmp_path}\n"


async def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    done = await sh(tmp_path, "echo first; seq 10000 99999; echo last", output_bytes=200)
    assert done.exit_code == 0
    assert done.output.startswith("first\n10000\n")
    assert done.output.endswith("99999\nlast\n")
    assert " bytes are left out" in done.output
    assert len(done.output) < 300


async def test_what_takes_too_long_is_stopped_with_all_its_children(tmp_path: Path) -> None:
    line = "echo begun; sh -c 'echo $$ > child; exec sleep 1000' & echo $$ > leader; yes > /dev/null"
    done = await sh(tmp_path, line, seconds=2)
    assert done == Finished(None, "begun\n")
    await until(
        lambda: not is_alive(read_pid(tmp_path / "leader")) and not is_alive(read_pid(tmp_path / "child"))
    )


async def test_what_a_command_leaves_behind_dies_with_the_call(tmp_path: Path) -> None:
    done = await sh(tmp_path, "sleep 1000 & echo $! > left; echo done")
    assert done == Finished(0, "done\n")
    await until(lambda: not is_alive(read_pid(tmp_path / "left")))


async def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    done = await sh(tmp_path, "echo said; exec >&- 2>&-; sleep 0.2; exit 4")
    assert done == Finished(4, "said\n")


async def test_a_cancelled_call_takes_its_processes_along(tmp_path: Path) -> None:
    call = asyncio.create_task(sh(tmp_path, "echo $$ > leader; sleep 1000"))
    await until(lambda: has_pid(tmp_path / "leader"))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not is_alive(read_pid(tmp_path / "leader")))


async def test_a_command_that_does_not_exist_is_said_so(tmp_path: Path) -> None:
    done = await sh(tmp_path, "no-such-command-here")
    assert done.exit_code == 127
    assert "no-such-command-here" in done.output


async def test_a_folder_that_does_not_exist_is_an_error_and_leaks_nothing(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(FileNotFoundError):
        await sh(tmp_path / "nowhere", "true")
    assert open_files() == before


async def test_calls_leave_no_open_files(tmp_path: Path) -> None:
    await sh(tmp_path, "true")
    before = open_files()
    await asyncio.gather(*(sh(tmp_path, "echo x") for _ in range(5)))
    assert open_files() == before


OURS = """
import asyncio, sys
from pathlib import Path
from examples.code_assistant.processes import ProcessLimits, clean_environment, run_process
folder = Path(sys.argv[1])
line = "sleep 1000 & echo $! > child; echo $$ > leader; sleep 1000"
asyncio.run(run_process(["/bin/sh", "-c", line], folder, clean_environment(folder), ProcessLimits()))
"""


async def test_the_group_dies_when_our_own_process_is_killed(tmp_path: Path) -> None:
    ours = subprocess.Popen([sys.executable, "-c", OURS, str(tmp_path)], cwd=ROOT)
    await until(lambda: has_pid(tmp_path / "leader") and has_pid(tmp_path / "child"))
    leader, child = read_pid(tmp_path / "leader"), read_pid(tmp_path / "child")
    assert is_alive(leader)
    assert is_alive(child)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    await until(lambda: not is_alive(leader) and not is_alive(child))
