"""What an owner of the run can do next, and where it leads. Pure.

What nobody else can see is part of the step before or behind it. A frozen owner is one that does not step while
others do.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.crash.protocol.choices import Act, Note, Stop, Write, cannot_say, choose
from tests.crash.protocol.flaws import Flaw, Setting
from tests.crash.protocol.store import fold, is_applied, newest_claim, standing, take
from tests.crash.protocol.words import (
    PROOF,
    TAKEN,
    Commit,
    Dispatch,
    Draft,
    Kind,
    Left,
    Life,
    Outcome,
    Owner,
    Phase,
    Reply,
    Row,
    Says,
    Stage,
    State,
    Step,
    What,
)

Following = Iterator[tuple[Step, State]]


def of_owner(setting: Setting, state: State, who: int, owner: Owner) -> Following:
    """All steps of one owner."""
    match owner.phase:
        case Phase.OFF:
            yield from _begin(setting, state, who)
            return
        case Phase.WAITS:
            yield from _wait(setting, state, who, owner)
        case Phase.THINKS:
            yield from _think(setting, state, who, owner)
        case Phase.READY:
            yield from _dispatch(setting, state, who, owner)
    if owner.phase is not Phase.WAITS and state.is_cancel_asked and not owner.known.is_cancelling:
        yield _sent(What.TAKE_CANCEL, who, _send(setting, state, who, owner, Write((TAKEN,), Phase.THINKS)))
    if state.left.faults:
        crashed = with_owner(state._replace(left=one_fault_less(state.left)), who, Owner())
        yield Step(What.CRASH, who), crashed._replace(ghosts=_ghosts(state, owner))


def _begin(setting: Setting, state: State, who: int) -> Following:
    """Take the run over, if nobody holds it and there is something to do."""
    lives = _lives(state)
    # Owners that have left no trace are alike: it is enough that the first of them begins.
    if any(other == Owner() and lives[at] == lives[who] == 0 for at, other in enumerate(state.owners[:who])):
        return
    known = standing(state.journal)
    is_cancelled = known.is_cancelling or state.is_cancel_asked
    is_waiting = known.question and state.answer is None and not is_cancelled
    if known.is_ended or is_waiting or (state.lease is not None and setting.flaw is not Flaw.NO_PATIENCE):
        return
    claimed = newest_claim(state.journal)
    epoch = claimed.epoch + (setting.flaw is not Flaw.SAME_EPOCH) if claimed else 1
    owner = Owner(life=lives[who] + 1, epoch=epoch, head=len(state.journal), known=known)
    claim = Write((Draft(Stage.CLAIMED),), Phase.THINKS)
    yield _sent(What.BEGIN, who, _send(setting, state, who, owner, claim))


def _wait(setting: Setting, state: State, who: int, owner: Owner) -> Following:
    commit = commit_of(owner)
    if owner.reply is None:
        reply, after = take(state, commit, setting.flaw)
        yield Step(What.ARRIVE, who, reply), with_owner(after, who, owner._replace(reply=reply))
    else:
        yield Step(What.HEAR, who, owner.reply), _hear(setting, state, who, owner)
    if state.left.faults:
        again = owner._replace(commit=_sent_again(setting, state, commit), reply=None)
        if setting.flaw is Flaw.BUDGET_FROM_RESEND:
            again = again._replace(is_fresh=True)
        left = one_fault_less(state.left)
        after = state._replace(left=left, ghosts=_ghosts(state, owner))
        yield Step(What.TIME_OUT, who), with_owner(after, who, again)


def _hear(setting: Setting, state: State, who: int, owner: Owner) -> State:
    commit = commit_of(owner)
    if owner.reply is Reply.HEAD_MOVED or owner.then is Phase.OFF:
        last = commit.rows[-1]
        if owner.reply is Reply.COMMITTED and last.stage is Stage.ENDED:
            state = state._replace(told=last.says)
        return with_owner(state, who, Owner())
    is_fresh = owner.is_fresh or (owner.then is Phase.READY and setting.flaw is Flaw.BUDGET_FROM_REPLY)
    heard = owner._replace(
        phase=owner.then, head=commit.expected + len(commit.rows), commit=None, reply=None, then=Phase.OFF
    )
    return with_owner(state, who, heard._replace(is_fresh=is_fresh))


def _think(setting: Setting, state: State, who: int, owner: Owner) -> Following:
    asking = cannot_say(setting, owner.known)
    if asking and state.left.faults:
        left = one_fault_less(state.left)
        yield _sent(What.THINK, who, _send(setting, state._replace(left=left), who, owner, asking))
    choice = choose(setting, owner.known, state)
    while isinstance(choice, Note):
        owner = _noted(owner, choice.rows)
        choice = choose(setting, owner.known, state)
    match choice:
        case Write():
            after = _send(setting, state, who, owner, choice)
        case Act(doing, rows):
            after = with_owner(state, who, _noted(owner, rows)._replace(phase=Phase.READY, doing=doing))
        case Stop() if state.is_cancel_asked:
            return  # it was woken for the cancellation
        case Stop():
            after = with_owner(state, who, Owner())
    yield _sent(What.THINK, who, after)


def _dispatch(setting: Setting, state: State, who: int, owner: Owner) -> Following:
    action, attempt = owner.doing
    kind = setting.actions[action]
    if not (owner.is_fresh or kind is Kind.READ_ONLY or _ignores_budget(setting, state, (who, owner.life))):
        proof = Write((PROOF,), Phase.READY, owner.doing)
        yield _sent(What.PROVE, who, _send(setting, state, who, owner, proof))
        return
    key = (action, owner.epoch) if setting.flaw is Flaw.KEY_PER_EPOCH else (action,)
    for outcome in Outcome if state.left.faults and kind is not Kind.READ_ONLY else (Outcome.SUCCEEDED,):
        after = owner._replace(phase=Phase.THINKS, doing=(0, 0))
        if (says := _recorded(setting, kind, outcome)) and after.known.action == action:
            after = _noted(after, (Draft(Stage.AFTER, action, attempt, says),))
        left = state.left if outcome is Outcome.SUCCEEDED else one_fault_less(state.left)
        world = (*state.world, Dispatch(action, attempt, key, outcome.landed))
        yield (
            Step(What.DISPATCH, who, outcome),
            with_owner(state._replace(world=world, left=left), who, after),
        )


def _ignores_budget(setting: Setting, state: State, by: Life) -> bool:
    match setting.flaw:
        case Flaw.NO_BUDGET | Flaw.ACTS_FIRST:
            return True
        case Flaw.NO_BUDGET_AGAIN:
            return all(row.stage is not Stage.BEFORE or row.by != by for row in state.journal)
        case _:
            return False


def _recorded(setting: Setting, kind: Kind, outcome: Outcome) -> Says | None:
    """What AFTER says of an outcome; None where it is unknown, which is not failed."""
    match outcome:
        case Outcome.SUCCEEDED:
            return Says.DONE
        case Outcome.REFUSED:
            return Says.FAILED
        case _ if kind is Kind.UNREPEATABLE:
            return Says.FAILED if setting.flaw is Flaw.UNKNOWN_IS_FAILED else None
        case Outcome.BROKE_AFTER if kind is Kind.RECONCILED:
            return Says.DONE
        case _:
            return Says.FAILED


def _send(setting: Setting, state: State, who: int, owner: Owner, write: Write) -> State:
    """Send everything that is noted, and these rows, to the store."""
    drafts, by = (*owner.pending, *write.rows), (who, owner.life)
    token = (owner.epoch, owner.head) if setting.flaw is Flaw.SHARED_TOKENS else (*by, owner.head)
    rows = tuple(
        Row(seq, *draft, owner.epoch, by, token) for seq, draft in enumerate(drafts, start=owner.head + 1)
    )
    sent = owner._replace(
        phase=Phase.WAITS,
        known=fold(owner.known, write.rows),
        pending=(),
        commit=Commit(by, token, owner.head, rows),
        reply=None,
        then=write.then,
        doing=write.doing,
        is_fresh=write.then is Phase.READY and setting.flaw is not Flaw.BUDGET_FROM_REPLY,
    )
    if setting.flaw is Flaw.TELLS_FIRST and rows[-1].stage is Stage.ENDED:
        state = state._replace(told=rows[-1].says)
    return with_owner(state, who, sent)


def _sent(what: What, who: int, after: State) -> tuple[Step, State]:
    """A step of an owner, with what it sends, if anything."""
    return Step(what, who, after.owners[who].commit), after


def _lives(state: State) -> list[int]:
    """The last life of each owner that left a trace; one that left none need not be told from the next."""
    lives = [0] * len(state.owners)
    for row in (*state.journal, *(commit.rows[0] for commit in state.ghosts)):
        who, life = row.by
        lives[who] = max(lives[who], life)
    return lives


def _noted(owner: Owner, rows: tuple[Draft, ...]) -> Owner:
    return owner._replace(pending=owner.pending + rows, known=fold(owner.known, rows))


def _sent_again(setting: Setting, state: State, commit: Commit) -> Commit:
    """The very same commit, so that the store recognises its own rows."""
    match setting.flaw:
        case Flaw.NEW_TOKEN | Flaw.NEW_HEAD:
            token = (*commit.token, state.left.faults)
            head = len(state.journal) if setting.flaw is Flaw.NEW_HEAD else commit.expected
            rows = [row._replace(token=token, seq=head + at) for at, row in enumerate(commit.rows, start=1)]
            return Commit(commit.by, token, head, tuple(rows))
        case _:
            return commit


def _ghosts(state: State, owner: Owner) -> frozenset[Commit]:
    """What an owner leaves on the wire when it waits no longer."""
    is_under_way = owner.commit is not None and not is_applied(state.journal, owner.commit)
    return state.ghosts | {commit_of(owner)} if is_under_way else state.ghosts


def commit_of(owner: Owner) -> Commit:
    """What a waiting owner waits for."""
    assert owner.commit is not None
    return owner.commit


def with_owner(state: State, who: int, owner: Owner) -> State:
    """The state with one owner changed."""
    return state._replace(owners=(*state.owners[:who], owner, *state.owners[who + 1 :]))


def one_fault_less(left: Left) -> Left:
    """What may still go wrong after one thing did."""
    return left._replace(faults=left.faults - 1)
