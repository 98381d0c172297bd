"""Every name that is stored in a journal or enters a digest: labels of step ids, keys of records, digest inputs.

Runs of earlier versions have these names in their rows, fingerprints, idempotency keys, child ids and seals, so a
name here never changes; a test pins each value. The kinds and stages of rows are enums of the ports and are pinned by
the same test: `AgentActionKind`, `JournalStage`, `Idempotency`.
"""

from __future__ import annotations

# Step ids: `path/label#ordinal`. The first part is the root, labels come from the program's structure.

RUN = "run"
"""The root of all step ids, and the id of every CLAIMED row."""
RUN_PREFIX = "run/"
RESULT_ACTION = "run/result#1"
"""The action that records the answer of a run."""
END = "run/end"
"""The boundary at which signals are taken in after the program has ended."""
MORE = "run/more"
"""The boundary at which messages are taken in for another turn of a loop that had its answer."""
ORDINAL = "#"
SEPARATOR = "/"

TASK = "task:"
"""An implicit branch: a task other than the owner of its scope."""
TOOL = "tool:"
STEP = "step:"
ASK = "ask:"
"""A question that a program puts to a person; its name follows."""
CHILD = "child:"
PACKET = "packet:"
"""A child run that is named by its delegation packet, wherever it is delegated."""
MODEL = "model"
NOW, UID, RANDOM = "now", "uid", "random"
"""The values of `now()`, `uid()` and `random()`."""
SHARED_STATE = "shared_state"
"""A change of the state that a run shares with its clients: `set_state()` and `patch_state()`."""
READ_STATE = "read_state"
"""The shared state as a program read it: `read_state()`."""
SLEEP, TIMEOUT = "sleep", "timeout"
"""The timers of `sleep()` and `timeout()`."""
SESSION = "session"
"""A fresh session of an architecture; it only takes an ordinal."""
SIGNALS = "signals"
"""Signals taken in before a model call; the name of every action that takes in more than one."""
SIGNALS_BESIDE = "signals:"
"""Signals taken in before any other action, whose last part follows."""
ON_SIGNAL = "on_signal:"
"""The scope of signal handlers beside an action, whose last part follows."""
SIGNAL = "signal:"
"""`next_signal()`; the origin of a signal's trust label; the seal of a stored signal."""
ANSWER_KEY = "answer:"
"""The id of the signal that answers a question; the id of the request follows."""
REFUSED_ANSWER = "refused:"
"""The id of the signal that records a refused answer; a digest follows."""
CONDENSED = "condensed"
"""A context change, below its model call."""
PROVIDED = "provided"
"""The context that the application provides for a model call, below that call."""
SELECTED, OPTIMIZED = "selected", "optimized"
"""The actions that a context handler selected, and the changes of packs they lead to, below their model call."""
TRY = "try"
"""A try of a model call that is not its reply, below the call."""
HOLD = "hold"
"""The worst case of a try, held before the model is asked, below the call; in a record its number."""
MEMORY_REMEMBER = "step:memory.remember"
MEMORY_RECALL = "step:memory.recall"
MEMORY_FORGET = "step:memory.forget"
EVENTS = "told#"
"""The row that holds events for readers; its number follows."""
FOLDED_TURNS = "turns:"
"""Turns of a loop of the library that are folded; the numbers of their first and last call follow."""
CHANGED = "changed:"
"""A gate that is open from here on: its name and the number of calls before it follow."""
RESUME, CLEANUP = "resume", "cleanup"
"""Taking up an interrupted run or the clean-up of a cancelled one: only the questions below it are recorded."""
APPROVAL = "approval"
"""The question whether an action may begin, below that action."""
RECOVERY = "recovery"
"""The question about an unknown outcome, below its action; the number of the attempt follows."""
RESULT = "result"
"""The question for the result of a deferred call, below that call; the name of `RESULT_ACTION`."""
PROMPT = "prompt"
"""A prompt snapshot, below its model call."""

# Keys of BEFORE and AFTER records. `RESULT` is one of them.

ASKED, EXECUTED = "asked", "executed"
ERROR = "error"
TRUST = "trust"
SECRETS = "secrets"
"""The ids of the secrets that a tool got; the values are stored nowhere."""
SPENT = "spent"
STEPS, TOOL_CALLS, TOKENS, COST = "steps", "tool_calls", "tokens", "cost"
OUTPUT = "output"
TAKEN = "taken"
STRATEGY, SUMMARY = "strategy", "summary"
AT, HANDLED = "at", "handled"
SECONDS, UNTIL = "seconds", "until"
"""The length of a timer, and the moment when it fires."""
CUT_SHORT = "cut_short"
"""Marks an outcome: the program cut the call short."""
SKIPPED = "skipped"
"""Marks an outcome: a person decided that the call is passed over."""
WITHDRAWN = "withdrawn"
"""Marks the answer of a question that the program does not wait for any more."""
SCALARS = "scalars"
"""The places of the scalars in a result without a declared type, each after its kind."""
DECIMAL, DATETIME, DATE, UUID, BYTES = "decimal", "datetime", "date", "uuid", "bytes"
"""The kinds of scalars."""
DECLARED, CODE, ARGS, DATA = "declared", "code", "args", "data"
"""A declared error: its code, the arguments of the exception and its attributes."""
ERROR_TYPE, ERROR_ID, WORDS = "error_type", "error_id", "words"
"""An exception that is no error of Pilotage: its type, the id of its words in the log, and the words themselves."""
NOT_RECORDED = "not_kept"
"""Marks a read-only action whose record could not be sealed: replay performs it again."""

EMITTED = "emitted"
"""The numbers of the last event before folded turns, and of the last one that they emitted."""

# Keys of model call records. `MODEL`, `RESULT`, `ERROR` and `TOOL_CALLS` are some of them.

REASONING, LEFT = "reasoning", "left"
RESTARTS = "restarts"
"""The number of restarts of a stream before its reply, in the attempt that recorded it: part of the message id."""
USAGE, USAGE_ESTIMATED = "usage", "usage_estimated"
INPUT_TOKENS, OUTPUT_TOKENS, TOTAL_TOKENS = "input_tokens", "output_tokens", "total_tokens"
CONTENT, STRUCTURED_OUTPUT, FINISH_REASON, METADATA = (
    "content",
    "structured_output",
    "finish_reason",
    "metadata",
)
CACHED_TOKENS, CACHE_WRITTEN_TOKENS, REASONING_TOKENS, OTHER_TOKENS = (
    "cached_tokens",
    "cache_written_tokens",
    "reasoning_tokens",
    "other_tokens",
)
PARTS = "parts"
"""The order of a reply's parts, where text and calls do not say it: each with its kind, and what the views lack."""
CALL, REFUSAL, MEDIA, OPAQUE = "call", "refusal", "media", "opaque"
"""The kinds of parts; `TEXT` and `REASONING` are two others."""
CHARS, ORIGIN, PROVIDER = "chars", "origin", "provider"
"""Of a part: the length of its text, where it is from, and the provider of its `STATE`."""
PASSED_OVER, ANSWERED_BY = "passed_over", "answered_by"
"""In the metadata of a reply: the models asked before, with the usage of paid replies; the model that answered."""
HELD, SETTLED_BY = "held", "settled_by"
"""Of a hold: the amount, and the action whose outcome has the real one."""
COSTS = "costs"
"""The prices of the paid replies of a record: of its own first, then of `PASSED_OVER` or `PAID`; each the amount, its
currency and the version of its price list, or nothing for an unknown price."""
COUNTED, EXACT, ESTIMATED = "counted", "exact", "estimated"
"""Of a hold: whether the model has counted the request, or its tokens are estimated."""
PAID = "paid"
"""The paid replies of other models before a reply that did not come to its end, like `PASSED_OVER`."""
NAME, ARGUMENTS, CALL_ID = "name", "arguments", "call_id"
RETRYABLE, FAILURE = "retryable", "failure"
PROBLEMS, TEXT = "problems", "text"

# Keys of the record of a result. `RESULT`, `SPENT`, `USAGE`, `ERROR` and `TRUST` are some of them.

CONTENT_PARTS, PLAIN = "content_parts", "plain"
"""A result that is a list of texts and media, and JSON that has the form of such a record."""
TURNS, INTERRUPTION, LEARNED = "turns", "interruption", "learned"
LIMIT, LIMITS = "limit", "limits"

# Keys of questions and answers. The fields of the requests are those of their classes.

ID = "id"
REQUEST_ID, ACTION_ID, ATTEMPT = "request_id", "action_id", "attempt"
ACTION_KIND = "action_kind"
"""Only questions about an outcome have it, so it distinguishes them from questions for approval."""
DECISION, MODIFIED_PAYLOAD, COMMENT, DECIDED_BY = "decision", "modified_payload", "comment", "decided_by"
ANSWER = "answer"
END_OF_SIGNAL = "end"
OUTDATED = "outdated"
"""The record of a question for approval that does not fit its call any more has only this: why. It is asked anew."""
BEGUN = "begun"
"""A field of a question that is not stored."""
RETRIED, DONE, FAILED, CANCELLED = "RecoveryRetried", "RecoveryDone", "RecoveryFailed", "RecoveryCancelled"
"""The values of `ANSWER`."""
INSIDE = "inside"
"""The answers to actions inside of the one that a question is about."""
RECONCILES = "reconciles"
"""In the row of a call that begins: its tool can look up what became of it."""

# Keys of CLAIMED records. The first row of a run has the fields of `RunStart`.

CLAIMED_BY, STILL_CLAIMED, STATE, TRACE = "claimed_by", "still_claimed", "state", "trace"
SUSPENDED, ENTERED = "suspended", "entered"
"""The actions that a pause or a hand-over interrupted between two calls inside of them, each with its attempt; and the
one of them that is entered again."""
OUTPUT_GUARD = "output_guard"
"""The output guard profile of an agent, in the digest of its definition."""
NOTED_REVISIONS = "noted_revisions"
"""Drafts and withdrawals of steering instructions that a run has noted: the input and the revision of each."""
INPUT_ID, REVISION = "input_id", "revision"
OWNER = "owner"
RULES = "rules"
"""The version of the rules by which a run is replayed, in its first row."""
"""The process that owns the run from this row on, by the name of its leases."""
DEADLINE, WAITS_COUNTED_UNTIL = "deadline", "waits_counted_until"
DRIFT, WAS, IS = "drift", "was", "is"
RESOLUTION, SKIP, GIVE, FORK = "resolution", "skip", "done", "fork"
"""The decision of a person about a diverged run, and the values of `DECISION` in it."""
AGENT, INPUT, PRINCIPAL, DEFINITION = "agent", "input", "principal", "definition"
CONVERSATION = "conversation"
INSTRUCTION, MESSAGES = "instruction", "messages"
GIVEN = "given"
"""The context that the caller of a run gives to it, and that a provider gives to a model call."""
DELEGATION = "delegation"
"""The packet that a run was delegated in."""
SYMPTOMS, ACTIONS = "symptoms", "actions"
"""Why a context handler was asked, and what it selected."""
DROPPED, DELEGATED, REFUSED = "dropped", "delegated", "refused"
"""The outcomes of the actions that a context handler selected; `REFUSED` holds the reasons by action."""

# Keys of views, which are for readers and not for replay.

VIEW, ERASED = "view", "erased"
CAPTURE = "capture"
"""How the view of a tool's result was made; a structured result, the usual one, has no such key."""
COUNTED_TOKENS = "counted_tokens"
"""In a manifest: the tokens of the request as the model counted them; all others there are estimates."""
MANIFEST = "manifest"
"""The context that a model got; of a plain transcript only the figures are stored."""

# Keys of a run's state and of its start metadata.

WAKE_AT = "wake_at"
"""In the facts of a pause: the time when the run goes on."""
PARENT, PAUSED_AT, AWAITS, CHILD_RUN = "parent", "paused_at", "awaits", "child"
ALIAS, FORKED_FROM = "alias", "forked_from"
DIVERGENCE, ACTION, DIFFERENCE = "divergence", "action", "difference"
RECORDED, LINE, KIND, LABEL, NUMBER, IS_OPEN = "recorded", "line", "kind", "label", "number", "is_open"
FINGERPRINT = "fingerprint"
"""The sides of a divergence, besides `ASKED`, `ARGUMENTS` and `ROW`."""
SEAL_MISSING = "seal_missing"
DAMAGE, ROW, REASON = "damage", "row", "reason"
TRIES = "tries"
POISON, CLAIMS, LAST_CLAIM, PROBLEM = "poison", "claims", "last_claim", "problem"
PAUSED_ON_REQUEST = "paused on request"
"""The activity of a run that a pause signal has interrupted, and that waits for nothing else."""
CANCELLATION_REASON, CANCELLATION_REQUESTED_BY = "cancellation_reason", "cancellation_requested_by"
CANCELLATION_SIGNAL_ID = "cancellation_signal_id"
LATE_SIGNALS = "late_signals"

# Seals.

SEALED = "pilotage.sealed"
"""The key under which the payload of a stored signal holds its sealed part; senders must not use it."""
KEY_ID, CIPHERTEXT = "key_id", "ciphertext"

# Inputs of digests. What they are joined with, and in which order, is part of the format too.

FIRST_DIGEST = "start"
"""The digest before the first row."""
SEALED_PAYLOAD, OPEN_PAYLOAD = "sealed", "open"
KEY_TAG = "tag"
"""By which the digests of rows name the key that made them."""
TOKEN_OF, SALT_OF = "token of ", "salt of "
FINGERPRINTS_OF = "fingerprints of "
CHILD_DIGEST, START_DIGEST = "child", "start"
