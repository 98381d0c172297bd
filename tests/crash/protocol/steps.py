"""Every step that is possible in a state, and where it leads: of people, of time, of the owners. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crash.protocol.choices import has_landed
from tests.crash.protocol.flaws import Flaw, Setting
from tests.crash.protocol.owners import Following, commit_of, of_owner, one_fault_less, with_owner
from tests.crash.protocol.store import is_applied, standing, take
from tests.crash.protocol.words import Answer, Owner, Phase, Says, State, Step, What


def initial(setting: Setting) -> State:
    """Nothing has happened."""
    owners = (Owner(),) * setting.owners
    return State((), owners, frozenset(), None, None, False, (), Says.NOTHING, setting.left)


def steps(setting: Setting, state: State) -> Following:
    """All steps from here."""
    yield from _of_people(setting, state)
    yield from _of_time(setting, state)
    for who, owner in enumerate(state.owners):
        yield from of_owner(setting, state, who, owner)


def _of_people(setting: Setting, state: State) -> Following:
    known = standing(state.journal)
    if known.is_ended or known.is_cancelling:
        return
    if known.question and state.answer is None:
        for says in _answers(setting, state, known.question, known.action):
            left = state.left._replace(retries=state.left.retries - 1) if says is Says.RETRY else state.left
            answer = Answer(says, known.action, known.attempt)
            yield Step(What.ANSWER, detail=says), state._replace(answer=answer, left=left)
    if state.left.cancels and not state.is_cancel_asked and state.journal:
        left = state.left._replace(cancels=state.left.cancels - 1)
        yield Step(What.ASK_CANCEL), state._replace(is_cancel_asked=True, left=left)


def _answers(setting: Setting, state: State, question: Says, action: int) -> Iterator[Says]:
    if question is Says.APPROVAL:
        yield from (Says.APPROVE, Says.REJECT)
        return
    yield from (Says.FAIL, Says.CANCEL)
    if has_landed(state, action) or not setting.is_truthful:
        yield Says.DONE
    if state.left.retries and not (has_landed(state, action) and setting.is_truthful):
        yield Says.RETRY


def _of_time(setting: Setting, state: State) -> Following:
    for ghost in sorted(state.ghosts):
        _, after = take(state, ghost, setting.flaw)
        yield Step(What.HAUNT, detail=ghost), after._replace(ghosts=after.ghosts - {ghost})
    if state.lease is None or setting.flaw is Flaw.NO_EXPIRY:
        return
    who, life = state.lease
    owner = state.owners[who]
    if owner.life != life or owner.phase is Phase.OFF:
        yield Step(What.EXPIRE), state._replace(lease=None)
    elif state.left.faults:
        # The lease runs from the commit's arrival, the budget from its sending and is shorter: what was
        # committed under this lease allows no dispatch any more. What is still on its way may yet renew it.
        is_under_way = owner.phase is Phase.WAITS and not is_applied(state.journal, commit_of(owner))
        owner = owner._replace(is_fresh=owner.is_fresh and is_under_way)
        left = one_fault_less(state.left)
        yield Step(What.EXPIRE), with_owner(state._replace(lease=None, left=left), who, owner)
