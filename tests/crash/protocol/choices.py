"""What an owner does next, given what it knows: the rules of durability, and nothing else. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tests.crash.protocol.flaws import Flaw, Setting
from tests.crash.protocol.words import PROOF, Answer, Draft, Kind, Phase, Says, Stage, Standing, State


class Note(NamedTuple):
    """Append rows that may wait for the next barrier, and go on."""

    rows: tuple[Draft, ...]


class Write(NamedTuple):
    """Append rows and commit everything so far; `then` is what the owner is at when it has heard of it.

    An owner that is then ready does `doing`, an action and the number of the attempt.
    """

    rows: tuple[Draft, ...]
    then: Phase
    doing: tuple[int, int] = (0, 0)


class Act(NamedTuple):
    """Act at once, with what is noted still uncommitted."""

    doing: tuple[int, int]
    rows: tuple[Draft, ...] = ()


class Stop(NamedTuple):
    """There is nothing to do here."""


Choice = Note | Write | Act | Stop


def choose(setting: Setting, known: Standing, state: State) -> Choice:
    """The next thing to do."""
    if known.is_ended:
        return Stop()
    if known.is_cancelling:
        closing = (Draft(Stage.AFTER, known.action, known.attempt, Says.UNKNOWN),) if known.attempt else ()
        return Write((*closing, Draft(Stage.ENDED, says=Says.CANCELLED)), Phase.OFF)
    if known.action == len(setting.actions):
        return Write((Draft(Stage.ENDED, says=Says.COMPLETED),), Phase.OFF)
    if known.question:
        return _obey(setting, known, state.answer)
    return _recover(setting, known, state) if known.attempt else _begin(setting, known)


def cannot_say(setting: Setting, known: Standing) -> Write | None:
    """What to do when the tool is asked what became of its call and does not know; None where nobody asks it."""
    is_open = known.attempt and not known.question and not known.is_cancelling
    return _ask(known) if is_open and setting.actions[known.action] is Kind.RECONCILED else None


def _begin(setting: Setting, known: Standing) -> Choice:
    if setting.actions[known.action] is Kind.READ_ONLY:
        return Act((known.action, 1))
    if setting.needs_approval and known.action == 0 and not known.is_approved:
        return Write((Draft(Stage.ASKED, known.action, 0, Says.APPROVAL),), Phase.OFF)
    return _attempt(setting, known, 1)


def _attempt(setting: Setting, known: Standing, attempt: int, *answer: Draft) -> Choice:
    """Begin an attempt; the answer that allows it is used up in the same commit."""
    doing = (known.action, attempt)
    before = (*answer, Draft(Stage.BEFORE, *doing))
    match setting.flaw:
        case Flaw.ACTS_FIRST:
            return Act(doing, before)
        case Flaw.AFTER_FIRST:
            return Write((*before, Draft(Stage.AFTER, *doing, Says.DONE)), Phase.READY, doing)
        case Flaw.EARLY_USE if answer and answer[0].says is Says.APPROVE:
            return Write(answer, Phase.THINKS)
        case _:
            return Write(before, Phase.READY, doing)


def _recover(setting: Setting, known: Standing, state: State) -> Choice:
    """An attempt was begun and nothing is known of its outcome."""
    again = Write((PROOF,), Phase.READY, (known.action, known.attempt))
    match setting.actions[known.action]:
        case Kind.READ_ONLY | Kind.IDEMPOTENT:
            return again
        case Kind.RECONCILED if has_landed(state, known.action):
            return Note((Draft(Stage.AFTER, known.action, known.attempt, Says.DONE),))
        case Kind.RECONCILED:
            return again
        case Kind.UNREPEATABLE if setting.flaw is Flaw.REPEATS:
            return again
        case Kind.UNREPEATABLE if setting.flaw is Flaw.OLD_APPROVAL:
            return _attempt(setting, known, known.attempt + 1)
        case Kind.UNREPEATABLE:
            return _ask(known)


def _ask(known: Standing) -> Write:
    return Write((Draft(Stage.ASKED, known.action, known.attempt, Says.RECOVERY),), Phase.OFF)


def _obey(setting: Setting, known: Standing, answer: Answer | None) -> Choice:
    if answer is None or (answer.action, answer.attempt) != (known.action, known.attempt):
        return Stop()
    answered = Draft(Stage.ANSWERED, known.action, known.attempt, answer.says)
    match answer.says:
        case Says.APPROVE | Says.RETRY:
            return _attempt(setting, known, known.attempt + 1, answered)
        case Says.DONE:
            return Note((answered, Draft(Stage.AFTER, known.action, known.attempt, Says.DONE)))
        case Says.CANCEL:
            return Write((answered, Draft(Stage.CANCELLING)), Phase.THINKS)
        case _:
            return Write((answered, Draft(Stage.ENDED, says=Says.FAILED)), Phase.OFF)


def has_landed(state: State, action: int) -> bool:
    """What the outside world says when it is asked about an action."""
    return any(each.landed for each in state.world if each.action == action)
