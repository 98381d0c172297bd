"""Bounds on the cost of a pattern for any text: how often a character may be read, and the number of states.

A character is read once for each attempt that may be open there, and never twice in the same state. So it is read at
most as often as a candidate is long, and as there are states; and three times at most where no attempt can begin while
another one is open. All states are found by trying every kind of character in each of them.
"""

from __future__ import annotations

from pilotage.safety.redaction.automaton import NOTHING, Automaton, AutomatonState
from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.syntax import Atom, Sequence, Tree, UnsupportedPatternError

MOST_READINGS = 512
"""How often a character may be read, at some tenth of a microsecond each."""
MOST_STATES, MOST_THREADS = 4_000, 20_000
"""How many states a pattern may have, and threads in all of them: the cache has room for several patterns."""
_ALONE, _FEW = 3, 12
_BEGIN = r"Begin it with a \b or a look-behind that fails inside a candidate, e.g. (?<![\w.])[\w.]{1,1000}@"


def readings(program: ScanProgram, automaton: Automaton, longest: int) -> int:
    """Return how often a character may be read, with candidates of a length.

    Raises:
        UnsupportedPatternError: there are too many states, or too many readings.
    """
    kinds = program.kinds()
    reached = _reached(automaton, kinds)
    states = {state.number for state, _ in reached}
    if _is_alone(automaton, reached, kinds):
        return _ALONE
    most = min(longest + 1, len(states))
    if most > MOST_READINGS:
        raise UnsupportedPatternError(
            f"may have {most:,} candidates open at once, and read a character as often; {MOST_READINGS} is the most",
            f"{_BEGIN}, use smaller counts, or give the pattern a max_candidate_length of up to {MOST_READINGS - 1}",
        )
    return most


def is_small(program: ScanProgram, longest: int) -> bool:
    """Return whether a pattern has so few nodes, and such short candidates, that its cost need not be computed."""
    return len(program.nodes) <= _FEW and longest <= _FEW


def is_fixed(tree: Tree) -> bool:
    """Return whether a pattern is a plain row of characters: its attempts have one thread, and one length."""
    return isinstance(tree, Atom) or (
        isinstance(tree, Sequence) and all(isinstance(part, Atom) for part in tree.parts)
    )


def _reached(automaton: Automaton, kinds: set[int]) -> list[tuple[AutomatonState, int]]:
    """Return the states that an attempt can reach, each with the kinds of character before it."""
    waiting = [automaton.start_after(kind) for kind in {NOTHING, *kinds}]
    known = {state.number for state in waiting}
    reached: dict[tuple[int, int], AutomatonState] = {}
    threads = 0
    while waiting:
        state = waiting.pop()
        threads += len(state.shape.attempt)
        for kind in kinds:
            target = _after(automaton, state, kind)
            reached[target.number, kind] = target
            if target.number not in known:
                known.add(target.number)
                waiting.append(target)
        if len(known) > MOST_STATES or threads > MOST_THREADS:
            raise UnsupportedPatternError(
                f"has more than {MOST_STATES:,} states, or {MOST_THREADS:,} threads in them",
                "Use smaller counts, or let what follows a repetition begin with a character that is not repeated, "
                "e.g. [^@]{1,64}@ instead of .{1,64}@",
            )
    return [(state, kind) for (_, kind), state in reached.items() if state.shape.attempt]


def _is_alone(automaton: Automaton, reached: list[tuple[AutomatonState, int]], kinds: set[int]) -> bool:
    """Return whether no attempt can take its first character while an earlier one is open."""
    begins = {
        before: {kind for kind in kinds if not _after(automaton, automaton.start_after(before), kind).failed}
        for before in kinds
    }
    return not any(
        _after(automaton, state, kind).shape.attempt for state, before in reached for kind in begins[before]
    )


def _after(automaton: Automaton, state: AutomatonState, kind: int) -> AutomatonState:
    step = automaton.step(state, kind)
    return step if isinstance(step, AutomatonState) else step.target
