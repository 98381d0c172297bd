"""What the model is made of. Everything is a tuple of small values: tuples hash fast, and there are many states."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The idempotency of an action, as recovery sees it."""

    READ_ONLY = "read-only"
    IDEMPOTENT = "idempotent"
    RECONCILED = "reconciled"
    UNREPEATABLE = "unrepeatable"


class Stage(StrEnum):
    """What a row says. In the journal itself a question is an action of its own, and an end is a state."""

    CLAIMED = "claimed"
    ASKED = "asked"
    ANSWERED = "answered"
    BEFORE = "before"
    AFTER = "after"
    CANCELLING = "cancelling"
    ENDED = "ended"


class Says(StrEnum):
    """The rest of what a row, a reply or an answer says."""

    NOTHING = ""
    APPROVAL = "approval"
    RECOVERY = "recovery"
    APPROVE = "approve"
    REJECT = "reject"
    RETRY = "retry"
    DONE = "done"
    FAIL = "fail"
    CANCEL = "cancel"
    FAILED = "failed"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Reply(StrEnum):
    """What the store answers to a commit."""

    COMMITTED = "committed"
    HEAD_MOVED = "head moved"


class Phase(StrEnum):
    """What an owner is at: not driving the run, choosing, waiting for the store, or free to act."""

    OFF = "off"
    THINKS = "thinks"
    WAITS = "waits"
    READY = "ready"


class Outcome(StrEnum):
    """What comes of an effect: whether it landed, and what the owner hears."""

    SUCCEEDED = "it lands and says so"
    REFUSED = "it says no"
    BROKE_AFTER = "it lands, and the line breaks"
    BROKE_BEFORE = "the line breaks before it lands"

    @property
    def landed(self) -> bool:
        """Whether the outside world has it."""
        return self in (Outcome.SUCCEEDED, Outcome.BROKE_AFTER)


Life = tuple[int, int]
"""An owner from its claim to its end: who, and the how-manieth time."""

Token = tuple[int, ...]


class Row(NamedTuple):
    """One row of the journal."""

    seq: int
    stage: Stage
    action: int
    attempt: int
    says: Says
    epoch: int
    by: Life
    token: Token

    def __str__(self) -> str:
        match self.stage:
            case Stage.CLAIMED:
                words = f"by owner {self.by[0]}, epoch {self.epoch}"
            case Stage.CANCELLING | Stage.ENDED:
                words = self.says
            case _:
                words = f"{self.action}.{self.attempt} {self.says}"
        return f"{self.seq}:{self.stage} {words}".strip()


class Draft(NamedTuple):
    """A row before it has its place."""

    stage: Stage
    action: int = 0
    attempt: int = 0
    says: Says = Says.NOTHING


PROOF = Draft(Stage.CLAIMED, says=Says.DONE)
"""A claim of one's own run, only to find out whether it still is."""

TAKEN = Draft(Stage.CANCELLING, says=Says.CANCEL)
"""The run is being cancelled, by a signal that is used up with this."""


class Commit(NamedTuple):
    """Rows on their way to the store, with the head they expect."""

    by: Life
    token: Token
    expected: int
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"{'; '.join(map(str, self.rows))}; behind row {self.expected}"


class Standing(NamedTuple):
    """What the rows of a run add up to: the action it is at, and what is known of it."""

    action: int = 0
    attempt: int = 0
    question: Says = Says.NOTHING
    is_approved: bool = False
    is_cancelling: bool = False
    is_ended: bool = False


class Owner(NamedTuple):
    """A process that drives the run, or could. `is_fresh`: its dispatch budget is not used up."""

    phase: Phase = Phase.OFF
    life: int = 0
    epoch: int = 0
    head: int = 0
    known: Standing = Standing()
    pending: tuple[Draft, ...] = ()
    commit: Commit | None = None
    reply: Reply | None = None
    then: Phase = Phase.OFF
    doing: tuple[int, int] = (0, 0)
    is_fresh: bool = False


class Answer(NamedTuple):
    """What a person said, waiting to be taken in."""

    says: Says
    action: int
    attempt: int


class Dispatch(NamedTuple):
    """One arrival at the outside world, as it remembers it."""

    action: int
    attempt: int
    key: tuple[int, ...]
    landed: bool

    def __str__(self) -> str:
        return f"{self.action}.{self.attempt}{'' if self.landed else ' (it did not land)'}"


class Left(NamedTuple):
    """How often something may still go wrong, and how often people may still retry and cancel.

    A fault is a crash, a lost reply, a line that breaks, or a lease that expires though its holder lives. The lease
    of a dead one always expires.
    """

    faults: int = 2
    retries: int = 1
    cancels: int = 0


class State(NamedTuple):
    """All there is: the store, the owners, what is on the wire, people, the outside world."""

    journal: tuple[Row, ...]
    owners: tuple[Owner, ...]
    ghosts: frozenset[Commit]
    lease: Life | None
    answer: Answer | None
    is_cancel_asked: bool
    world: tuple[Dispatch, ...]
    told: Says
    left: Left

    def __str__(self) -> str:
        rows = "; ".join(map(str, self.journal)) or "nothing"
        made = "; ".join(map(str, self.world)) or "nothing"
        return f"the journal has {rows} - the outside world has {made}"


class What(StrEnum):
    """The kinds of step."""

    BEGIN = "reads the journal and sends"
    ARRIVE = "the store takes its commit"
    HEAR = "hears from the store"
    TIME_OUT = "gives up waiting and sends its commit again"
    THINK = "goes on"
    DISPATCH = "acts"
    PROVE = "has used its budget up and sends"
    TAKE_CANCEL = "takes the cancellation in and sends"
    CRASH = "crashes"
    HAUNT = "a commit that nobody waits for arrives"
    EXPIRE = "the lease expires"
    ANSWER = "a person answers"
    ASK_CANCEL = "a person asks to cancel"


class Step(NamedTuple):
    """One step: what, by whom (-1 is nobody in particular), and what of it was a choice."""

    what: What
    who: int = -1
    detail: Commit | Outcome | Reply | Says | None = None

    def __str__(self) -> str:
        who = f"owner {self.who}: " if self.who >= 0 else ""
        return f"{who}{self.what}" + (f" ({self.detail})" if self.detail else "")
