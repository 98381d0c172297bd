"""Plans as graphs: problems with the names and needs of their steps, and steps that can run in parallel. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

_NOTHING: Collection[str] = ()


def graph_problems(
    steps: Sequence[tuple[str, Sequence[str]]], *, most: int, known: Collection[str] = _NOTHING
) -> list[str]:
    """Return the problems of steps, given as names with the names they need; `known` are steps that are done.

    Every problem is a sentence for the model that made the plan.
    """
    names = [name for name, _ in steps]
    there = {*names, *known}
    problems = ["there is no step."] if not steps else []
    problems += [f"there are {len(steps)} steps; {most} are allowed."] if len(steps) > most else []
    problems += ["a step has no id."] if any(not name.strip() for name in names) else []
    problems += [f"the id {name!r} is used {names.count(name)} times." for name in _twins(names)]
    problems += [f"the id {name!r} is that of a step which is done." for name in names if name in known]
    for name, needs in steps:
        unknown = [need for need in needs if need not in there]
        problems += [f"{name!r} needs {need!r}, which is no step." for need in unknown]
    return problems or _cycles(dict(steps), known)


def levels(steps: Mapping[str, Sequence[str]], known: Collection[str] = _NOTHING) -> list[list[str]]:
    """Return the steps in levels: those of one level can run in parallel; steps in a cycle are left out."""
    done, left, found = set(known), dict(steps), list[list[str]]()
    while ready := [name for name, needs in left.items() if all(need in done for need in needs)]:
        found.append(ready)
        done.update(ready)
        left = {name: needs for name, needs in left.items() if name not in done}
    return found


def _cycles(steps: Mapping[str, Sequence[str]], known: Collection[str]) -> list[str]:
    reached = {name for level in levels(steps, known) for name in level}
    stuck = [repr(name) for name in steps if name not in reached]
    return [f"{', '.join(stuck)} wait for each other; no step may need itself."] if stuck else []


def _twins(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
