"""Prints what becomes of every program of the kit: `python -m tests.replay.report [--pairs] [--without RULE] [NAME ...]`.

Each program is paused before every action, and killed at every commit and behind every effect; with `--pairs` also
killed at every commit after each pause. With `--without 12` rule 12 of durability is switched off.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections import Counter

import pytest

import tests.replay.programs as _programs
from tests.crash.planted import Planting
from tests.replay.kit import PROGRAMS
from tests.replay.rules import BUILDS
from tests.replay.story import Tried, Verdict, try_everywhere


def main() -> None:
    """Try the programs and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.report")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--without", type=int, choices=BUILDS, metavar="RULE")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        if given.without is not None:
            BUILDS[given.without].plant(Planting(patch))
            print(f"without rule {given.without}: {BUILDS[given.without].rule}")
        _report(given.names, with_pairs=given.pairs)


def _report(names: list[str], *, with_pairs: bool) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    assert _programs.__all__
    chosen = [PROGRAMS[name] for name in names] if names else list(PROGRAMS.values())
    begin, tried = time.time(), []
    print(f"{'program':40} {'places':>6}  {'should':9} {'verdicts'}")
    for program in chosen:
        result = try_everywhere(program, with_pairs=with_pairs)
        tried.append(result)
        print(_line(result), flush=True)
    print()
    good = [each for each in tried if each.is_as_it_should]
    print(f"{len(good)} of {len(tried)} programs as they should be, {time.time() - begin:.0f} s")
    worst = Counter(each.worst.value for each in tried if each not in good)
    print("worst verdict of the others:", ", ".join(f"{count} {name}" for name, count in worst.most_common()))


def _line(tried: Tried) -> str:
    program = tried.program
    should = "completes" if program.is_deterministic else "no twice"
    mark = " " if tried.is_as_it_should else "!"
    counts = ", ".join(f"{tried.counts[each]} {each.value}" for each in Verdict if each in tried.counts)
    places = sum(tried.counts.values())
    first = tried.places[tried.worst].replace("\n", " ")[:150] if not tried.is_as_it_should else ""
    return f"{mark}{program.name:39} {places:>6}  {should:9} {counts:34} {first}"


if __name__ == "__main__":
    main()
