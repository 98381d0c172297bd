"""Errors of callers, who asked for something that cannot be given."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pilotage.errors.base import PilotageError


class CallerError(PilotageError):
    """The request of a caller cannot be served."""

    message: ClassVar[str] = "The request cannot be served."
    code: ClassVar[str] = "caller_error"


class PodNotFoundError(CallerError):
    """The application has no pod of the requested type (and name), or more than one."""

    message: ClassVar[str] = "Nothing provides the type asked for."
    code: ClassVar[str] = "pod_not_found"


class ApplicationStateError(CallerError):
    """The application is not in the state the call needs: not started yet, started already, stopped."""

    message: ClassVar[str] = "The application is not in the right state for this call."
    code: ClassVar[str] = "application_state_error"


class ContextNotActiveError(CallerError):
    """A pod of the context scope was requested outside a context."""

    message: ClassVar[str] = "No context is active."
    code: ClassVar[str] = "context_not_active"


class RunNotFoundError(CallerError):
    """There is no such run, or it belongs to another tenant: a caller cannot distinguish the two."""

    message: ClassVar[str] = "There is no such run."
    code: ClassVar[str] = "run_not_found"


class RunConflictError(CallerError):
    """Another process owns the run, or claimed it at the same time; nothing was done.

    Where a run cannot start because another one has its conversation, `holder` is that one. It has ended if its turns
    are still being appended.
    """

    message: ClassVar[str] = "Another process owns the run."
    code: ClassVar[str] = "run_conflict"

    def __init__(self, *args: object, holder: str | None = None) -> None:
        super().__init__(*args)
        self.holder = holder


class AnswerConflictError(CallerError):
    """A question has another answer already, which counts; this one changes nothing and is recorded as evidence.

    `decision`, `decided_by` and `decided_at` are those of the answer that counts. A question that was closed without a
    person, because it expired, has no `decided_by`.
    """

    message: ClassVar[str] = "The question has another answer already."
    code: ClassVar[str] = "answer_conflict"

    def __init__(
        self,
        detail: str | None = None,
        *,
        request_id: str = "",
        decision: str = "",
        decided_by: str | None = None,
        decided_at: datetime | None = None,
    ) -> None:
        super().__init__(detail)
        self.request_id = request_id
        self.decision = decision
        self.decided_by = decided_by
        self.decided_at = decided_at


class SteeringConflictError(CallerError):
    """A revision of a steering instruction changes nothing: the input was taken in, or has another revision.

    `revision` is the one of the input `input_id` that counts; `is_taken` says that the run has taken it in.
    """

    message: ClassVar[str] = "The steering instruction has another revision that counts."
    code: ClassVar[str] = "steering_conflict"

    def __init__(
        self, detail: str | None = None, *, input_id: str = "", revision: int = 0, is_taken: bool = False
    ) -> None:
        super().__init__(detail)
        self.input_id = input_id
        self.revision = revision
        self.is_taken = is_taken


class RunErasedError(CallerError):
    """The content of a run was erased; its state is still there."""

    message: ClassVar[str] = "The content of the run was erased."
    code: ClassVar[str] = "run_erased"


class DamagedEntryError(CallerError):
    """A stored entry cannot be decoded, or is not the one that was written; the message names it."""

    message: ClassVar[str] = "A stored entry is damaged."
    code: ClassVar[str] = "damaged_entry"

    @classmethod
    def changed(cls, name: str) -> DamagedEntryError:
        """Return the error for an entry with columns that this application did not write."""
        return cls(f"{name} is not stored as it was written. Restore it from a backup.")

    @classmethod
    def unreadable(cls, name: str, error: Exception) -> DamagedEntryError:
        """Return the error for an entry with columns that cannot be decoded."""
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        return cls(f"{name} cannot be decoded ({words}). Restore it from a backup.")


class SignalNotFoundError(CallerError):
    """There is no such signal, or it was consumed already."""

    message: ClassVar[str] = "There is no such pending signal."
    code: ClassVar[str] = "signal_not_found"


class EvidenceNotFoundError(CallerError):
    """There is no such evidence, or it belongs to another tenant."""

    message: ClassVar[str] = "There is no such evidence."
    code: ClassVar[str] = "evidence_not_found"


class ModelNotFoundError(CallerError):
    """The application has no model of the name that was selected, or several."""

    message: ClassVar[str] = "There is no such model."
    code: ClassVar[str] = "model_not_found"


class MediaRefusedError(CallerError):
    """A run was given media that its agent does not allow, or that its model does not take."""

    message: ClassVar[str] = "The media are refused."
    code: ClassVar[str] = "media_refused"


class MediaTooLargeError(MediaRefusedError):
    """There are more media, or more bytes of them, than the agent allows."""

    message: ClassVar[str] = "The media are too large."
    code: ClassVar[str] = "media_too_large"


class MediaTypeRefusedError(MediaRefusedError):
    """A media part is of a type that the agent does not allow, or that its model does not take."""

    message: ClassVar[str] = "The type of the media is refused."
    code: ClassVar[str] = "media_type_refused"


class MediaBrokenError(MediaRefusedError):
    """The bytes of a media part are not whole, or are no base64."""

    message: ClassVar[str] = "The media are broken."
    code: ClassVar[str] = "media_broken"


class MediaNotFoundError(CallerError):
    """The tenant, or the run, has no media with this digest."""

    message: ClassVar[str] = "There are no such media."
    code: ClassVar[str] = "media_not_found"


class NotAuthenticatedError(CallerError):
    """The request has no authenticated principal; it was not processed."""

    message: ClassVar[str] = "The request is not authenticated."
    code: ClassVar[str] = "not_authenticated"


class PermissionDeniedError(CallerError):
    """The principal is not allowed to do this."""

    message: ClassVar[str] = "The principal is not allowed to do this."
    code: ClassVar[str] = "permission_denied"
