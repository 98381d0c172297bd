"""Questions that a program puts to a person: text, the schema of the answer, and the answer as an action of the run.

Such a question is asked like that for the result of a deferred call: nothing is dispatched and no outcome is unknown.
It is committed when it is asked, the run pauses for it, and an answer is taken from any process.
"""

from __future__ import annotations

from typing import Never

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import INPUT_SCHEMA
from pilotage.agent.tools.declared_errors import DeclaredErrors
from pilotage.errors import AgentDefinitionError, QuestionDeclinedError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import VALUE, Effect, Wanted
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.scope import scope_for
from pilotage.safety.trust import Integrity, TrustLabel

_ERRORS = DeclaredErrors([QuestionDeclinedError])


async def ask(
    name: str, text: str, schema: JsonObject | None = None, *, reads_untrusted: bool = False
) -> JsonValue:
    """Return the answer of a person to a question: `await ask("address", "Where to?", {"type": "object", ...})`.

    The run waits for it, for as long as it takes. `runs.answer(run, question, RecoveryDecision.DONE, result=...)`
    answers, with a result of the schema; FAIL declines, CANCEL cancels the run. `name` identifies it in the record.
    With `reads_untrusted=True` the text is one of a stranger, and so may the answer be.

    Raises:
        QuestionDeclinedError: the person declined.
        AgentDefinitionError: the name is wrong, or there is no run to wait.
    """
    if not name.strip() or words.SEPARATOR in name or words.ORDINAL in name:
        raise AgentDefinitionError(f"ask({name!r}): give the question a name without '/' and '#'.")
    run = active_run()
    if run is None:
        raise AgentDefinitionError(
            f"ask({name!r}): nobody waits for the answer outside of a run. Call it in an agent or a tool of a run."
        )
    effect = Asking(run, name, text, schema or {})
    if reads_untrusted:
        effect.result_label = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({f"{words.ASK}{name}"}))
    run.number(effect)
    answer: JsonValue = await perform(run, effect)
    return answer


class Asking(Effect):
    """A question of the program. Its result is the answer."""

    kind = VALUE
    is_deferred = True
    errors = _ERRORS

    def __init__(self, run: Run, name: str, text: str, schema: JsonObject) -> None:
        asked: JsonObject = {words.TEXT: text, INPUT_SCHEMA: schema}
        label = f"{words.ASK}{name}"
        scope = scope_for(label, asked if run.source.start.names_tasks else None)
        view = asked if run.redactor.is_idle else run.redactor.json(asked)
        action = run.action(scope.next_id(label), AgentActionKind.VALUE, label, asked, view)
        super().__init__(scope, action)
        self.wanted = Wanted(text, schema)

    def act(self) -> Never:
        raise NotImplementedError("a question is answered, not carried out.")
