"""Runs, questions, events and findings as text: snapshots of pure functions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.leases import ClaimRecord
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction, RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.cli.handlers.change_runs import answers_inside
from pilotage.cli.handlers.doctor import code_of_findings, finding_lines, note, off, well
from pilotage.cli.json_view import event_json, view_json
from pilotage.cli.prompt import InputLines, Prompt
from pilotage.cli.question_view import open_questions
from pilotage.cli.run_output import EventFormatter
from pilotage.cli.run_view import (
    RunFacts,
    ending_lines,
    run_lines,
    run_page,
)
from pilotage.cli.screen import PlainWriter, Screen
from pilotage.cli.text import Hints, Line, TextSpan, ago, length, plain, short
from pilotage.cli.timeline import counted, timeline_lines, timeline_of
from pilotage.errors import CallerError
from pilotage.inbound.questions import QuestionView
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.reading import RunOutline

RUN, CHILD = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
HINTS = Hints("--app shop:app")
BY = AgentEventAttribution("desk", RUN, RUN)
OF_CHILD = AgentEventAttribution("scout", CHILD, RUN, RUN)


def state(situation: AgentSituation, **more: object) -> AgentState:
    base = AgentState(
        RUN,
        "desk",
        situation.status,
        situation.transition,
        situation.reason,
        created_at=NOW - timedelta(minutes=3),
        updated_at=NOW - timedelta(seconds=12),
    )
    from dataclasses import replace

    return replace(base, **more)  # type: ignore[arg-type]


def approval(number: int = 1, run_id: str = RUN, **more: object) -> AgentApprovalRequest:
    fields: dict[str, object] = {"arguments": {"to": "***4711", "amount": 5}, **more}
    return AgentApprovalRequest(
        f"{run_id}:{str(number) * 32}",
        run_id,
        AgentApprovalBoundaryKind.TOOL_INVOCATION,
        "Approve the call of tool 'pay'?",
        ToolRisk(),
        "shop.Payments:pay",
        **fields,  # type: ignore[arg-type]
    )


RECOVERY = AgentRecoveryRequest(
    f"{RUN}:{7:032x}",
    RUN,
    "run/tool:wire#1",
    2,
    "nobody knows whether 'wire' happened",
    AgentActionKind.TOOL_CALL,
    "wire",
    {"amount": 5},
    ({"result": "wired"},),
)


def row(seq: int, action: str, kind: str, stage: str, **view: JsonValue) -> AgentEvidence:
    place: dict[str, JsonValue] = {"action_id": action, "action_kind": kind, "stage": stage, "attempt": 1}
    return AgentEvidence(
        f"{RUN}:{seq}",
        RUN,
        AgentEvidenceKind.TOOL,
        {**place, **view},
        created_at=NOW + timedelta(seconds=seq),
    )


EVIDENCE = [
    row(1, "run/model#1", "model_call", "after", result={"content": "", "tool_calls": [{"name": "pay"}]}),
    row(2, "run/tool:pay#1/approval", "approval_wait", "before", arguments={"amount": 5}),
    row(
        3,
        "run/tool:pay#1/approval",
        "approval_wait",
        "after",
        decision="approve",
        decided_by="ada",
        comment="ok",
    ),
    row(4, "run/tool:pay#1", "tool_call", "before", asked={"amount": 5}),
    row(5, "run/tool:pay#1", "tool_call", "after", result="paid\x1b[2J 5"),
    row(6, "run/step:mail#1", "step", "before"),
    row(7, "run/tool:old#1", "tool_call", "after", erased=True),
    row(8, "run/result#1", "value", "after", result="not an action"),
]


def test_a_timeline_folds_what_belongs_together() -> None:
    assert plain(timeline_lines(timeline_of(EVIDENCE))) == (
        "12:00:01  model call     model#1                    calls pay\n"
        "12:00:02  approval wait  tool:pay#1/approval  1 s   approve by ada: ok\n"
        '12:00:04  tool call      tool:pay#1           1 s   amount=5 → "paid\\u001b[2J 5"\n'
        "12:00:06  step           step:mail#1          open\n"
        "12:00:07  tool call      tool:old#1                 erased\n"
    )


def test_a_timeline_in_a_small_room_has_a_line_for_each_part() -> None:
    assert plain(timeline_lines(timeline_of(EVIDENCE[1:3]), room=40)) == (
        "12:00:02  approval wait  1 s\n    tool:pay#1/approval\n    approve by ada: ok\n"
    )


def test_a_step_that_was_repeated_is_labelled_and_counted() -> None:
    steps = [
        row(1, "run/step:quote#1", "step", "after", result=1, idempotency="idempotent"),
        row(2, "run/step:mail#1", "step", "before", idempotency="idempotent"),
        row(3, "run/step:mail#1", "step", "after", result=2, idempotency="idempotent"),
        row(4, "run/step:pay#1", "step", "before", idempotency="unknown"),
        row(5, "run/step:pay#1", "step", "after", result=3, idempotency="unknown"),
        row(6, "run/tool:wire#1", "tool_call", "after", attempt=2, result="wired"),
    ]
    # The step that may not be repeated was settled by a person, in the process after the crash.
    entries = timeline_of(steps, {("run/step:mail#1", 1), ("run/step:pay#1", 1)})
    assert [each.name for each in entries] == [
        "step:quote#1",
        "step:mail#1 (retried after a crash)",
        "step:pay#1",
        "tool:wire#1 (retried, attempt 2)",
    ]
    assert counted(entries) == "1 tool call, 3 steps, 2 retried"


@pytest.mark.parametrize(
    ("metadata", "lines"),
    [
        (
            {"tool_name": "pay", "metadata": {"reason": "more than\n the limit"}},
            ["  why       more than the limit"],
        ),
        (
            {"tool_name": "pay", "score": 7, "rule": "night shift"},
            ["  score     7", "  rule      night shift"],
        ),
        ({}, []),
    ],
)
def test_a_question_shows_why_it_is_asked(metadata: JsonObject, lines: list[str]) -> None:
    shown = plain(open_questions([approval(metadata=metadata)], HINTS)).splitlines()
    assert shown[3 : 3 + len(lines)] == lines
    assert shown[3 + len(lines)] == "  action    shop.Payments:pay"


@pytest.mark.parametrize(
    ("situation", "more", "words"),
    [
        (AgentSituation.RUNNING, {"current_activity": "model#2"}, "active"),
        (AgentSituation.WAITING_FOR_APPROVAL, {}, "waits for approval"),
        (AgentSituation.RECOVERY_REQUIRED, {}, "waits: outcome unknown"),
        (AgentSituation.USER_INTERRUPTED, {}, "paused"),
        (AgentSituation.POISONED, {}, "quarantined"),
        (AgentSituation.MODEL_UNAVAILABLE, {}, "waits for its model"),
        (AgentSituation.USER_INTERRUPTED, {"awaits": "user_message"}, "waits for user_message"),
        (AgentSituation.CANCELLING, {}, "cancelling"),
        (AgentSituation.CANCELLING, {"awaits": "approval_decision"}, "cancelling, waits for approval"),
        (AgentSituation.FAILED, {}, "failed"),
        (AgentSituation.TIMED_OUT, {}, "failed: timeout"),
        (AgentSituation.CANCELLED, {}, "cancelled"),
    ],
)
def test_a_run_stands_somewhere_in_words(
    situation: AgentSituation, more: dict[str, object], words: str
) -> None:
    heading, listed = plain(run_lines([(state(situation, **more), RunOutline("pay Bo"))], NOW)).splitlines()
    assert heading.split() == ["RUN", "AGENT", "STATUS", "STARTED", "INPUT", "ACTIVITY"]
    assert listed.startswith(f"{RUN}  desk   {words}")
    assert "3 min ago" in listed


def test_a_list_on_a_terminal_has_short_ids_and_fits() -> None:
    busy = (
        state(AgentSituation.RUNNING, current_activity="a long tale\nof many\x1b[2J words"),
        RunOutline("pay\nBo", "talk-1"),
    )
    assert plain(run_lines([busy], NOW, room=80)) == (
        "RUN           AGENT  STATUS  STARTED    INPUT   CONVERSATION  ACTIVITY\n"
        "0123456789ab  desk   active  3 min ago  pay Bo  talk-1        a long tale of ma…\n"
    )
    assert plain(run_lines([busy], NOW, room=50)) == (
        "0123456789ab  desk  active\n    3 min ago, pay Bo, talk-1, a long tale of many\\x1b[2J words\n"
    )
    assert plain(run_lines([], NOW)) == "no runs\n"


def test_a_run_that_no_process_drives_is_marked() -> None:
    left = (state(AgentSituation.RUNNING), RunOutline("pay Bo", is_driven=False))
    assert "active, no process drives it" in plain(run_lines([left], NOW))


def test_two_questions_of_one_run_are_answered_by_their_own_ids() -> None:
    text = plain(open_questions([approval(1), approval(2)], HINTS))
    assert "  pilotage runs approve 0123456789ab:111111111111 --app shop:app\n" in text
    assert "  pilotage runs approve 0123456789ab --app shop:app\n" not in text


def test_a_question_of_a_child_names_the_child() -> None:
    text = plain(open_questions([approval(1), approval(1, CHILD)], HINTS))
    assert "  pilotage runs approve 0123456789ab --app shop:app\n" in text
    assert f"  pilotage runs approve {CHILD[:12]} --app shop:app\n" in text


def test_a_question_about_an_unknown_outcome_shows_what_came_late() -> None:
    assert plain(open_questions([RECOVERY], HINTS)) == (
        "? nobody knows whether 'wire' happened\n"
        "    amount = 5\n"
        "  action    wire\n"
        '  late      {"result": "wired"}\n'
        "  attempt   2\n"
        "  pilotage runs retry 0123456789ab --app shop:app\n"
        "  pilotage runs done 0123456789ab --result '…' --app shop:app\n"
        "  or        fail, cancel\n"
    )


INSIDE = replace(
    RECOVERY,
    late_outcomes=(),
    attempt=1,
    inside=(
        OpenAction(
            "run/tool:wire#1/tool:note#1", 1, AgentActionKind.TOOL_CALL, "note", {"view": {"what": "tea"}}
        ),
        OpenAction(
            "run/tool:wire#1/tool:pay#1",
            2,
            AgentActionKind.TOOL_CALL,
            "pay",
            {"view": {"amount": 5}},
            tuple(RecoveryDecision),
        ),
    ),
)


def test_a_question_about_nested_tools_shows_the_open_actions_inside() -> None:
    assert plain(open_questions([INSIDE], HINTS)) == (
        "? nobody knows whether 'wire' happened\n"
        "    amount = 5\n"
        "  action    wire\n"
        "  inside    note (needs no answer)  run/tool:wire#1/tool:note#1\n"
        '    view = {"what": "tea"}\n'
        "  inside    pay, attempt 2  run/tool:wire#1/tool:pay#1\n"
        '    view = {"amount": 5}\n'
        "  pilotage runs retry 0123456789ab --action pay=retry --app shop:app\n"
        "  pilotage runs done 0123456789ab --result '…' --app shop:app\n"
        "  or        fail, cancel\n"
    )
    assert view_json(QuestionView.of(INSIDE))["inside"] == [
        {
            "action_id": "run/tool:wire#1/tool:note#1",
            "action": "note",
            "arguments": {"view": {"what": "tea"}},
            "allowed_decisions": [],
            "attempt": 1,
        },
        {
            "action_id": "run/tool:wire#1/tool:pay#1",
            "action": "pay",
            "arguments": {"view": {"amount": 5}},
            "allowed_decisions": ["retry", "done", "fail", "cancel"],
            "attempt": 2,
        },
    ]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("pay=retry", {"decision": "retry"}),
        ("run/tool:wire#1/tool:pay#1=fail", {"decision": "fail"}),
        ('pay=done:{"n": "a=b:c"}', {"decision": "done", "result": {"n": "a=b:c"}}),
        ("pay=done:null", {"decision": "done", "result": None}),
    ],
)
def test_an_answer_to_an_action_inside_is_read_from_an_option(given: str, answer: JsonObject) -> None:
    assert answers_inside(INSIDE, [given]) == {"run/tool:wire#1/tool:pay#1": answer}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("pay", "is no answer. Write NAME=retry"),
        ("pay=perhaps", "is no answer. Write NAME=retry"),
        ("note=retry", "'note' is none of the actions that need an answer: pay."),
        ("pay=done:{", "--action is no JSON"),
    ],
)
def test_an_option_that_answers_nothing_is_refused(given: str, words: str) -> None:
    with pytest.raises(CallerError, match=re.escape(words)):
        answers_inside(INSIDE, [given])


class _Typed(InputLines):
    """Lines that are typed beforehand."""

    def __init__(self, *typed: str) -> None:
        self.typed = list(typed)

    async def next(self) -> str | None:
        return self.typed.pop(0) if self.typed else None

    def discard(self) -> None:
        """Nothing was typed ahead."""


async def test_a_person_at_the_terminal_is_asked_about_each_open_action() -> None:
    text = PlainWriter(StringIO())
    asker = Prompt(Screen(text, text), _Typed("retry", "what?", "done", '"paid"'))
    answer = await asker.ask(INSIDE)
    assert answer is not None
    assert answer.decision is RecoveryDecision.RETRY
    paid = {"decision": "done", "result": "paid"}
    assert answer.details == {"actions": {"run/tool:wire#1/tool:pay#1": paid}}
    assert await Prompt(Screen(text, text), _Typed("retry")).ask(INSIDE) is None


def test_arguments_cannot_pose_as_something_else() -> None:
    tricky = approval(arguments={"to": "x\r\n? Approve nothing\u202e", "amount": "y" * 3_000})
    lines = plain(open_questions([tricky], HINTS)).splitlines()
    assert '    to = "x\\r\\n? Approve nothing\\u202e"' in lines
    assert any(each.endswith("more characters: --json shows all)") for each in lines)


def test_a_question_is_told_until_when_it_can_be_answered() -> None:
    assert "  until     2026-11-15 12:00:00 UTC\n" in plain(open_questions([approval(expires_at=NOW)], HINTS))
    assert view_json(QuestionView.of(approval(expires_at=NOW)))["expires_at"] == "2026-11-15T12:00:00+00:00"
    assert view_json(QuestionView.of(RECOVERY))["kind"] == "recovery"


def test_an_approval_shows_its_terms() -> None:
    asked = approval(requested_by="ada", approver_scope="the night\nshift", policy_version="desk/3")
    lines = plain(open_questions([asked], HINTS)).splitlines()
    assert lines[4:7] == ["  by        ada", "  approvers the night shift", "  policy    desk/3"]
    assert "approvers" not in plain(open_questions([approval()], HINTS))


def test_the_page_of_a_failed_run() -> None:
    result = RunResult(
        state(AgentSituation.FAILED, metadata={"parent": CHILD}),
        error={"code": "tool_error", "message": "no\x1b money"},
        turns=1,
        spent=BudgetAmount(1, 2, 30, Decimal("0.5")),
    )
    facts = RunFacts(result.state, (), (), result)
    assert plain(run_page(facts, HINTS, NOW)) == (
        f"run      {RUN}\n"
        "agent    desk\n"
        "status   failed\n"
        "started  2026-11-15 11:57:00 UTC (3 min ago)\n"
        "changed  2026-11-15 11:59:48 UTC (12 s ago)\n"
        f"part of  {CHILD}\n"
        "\n"
        "failed with\n"
        "no\\x1b money (tool_error)\n"
        "\n"
        "1 model call, 2 tool calls, 30 tokens, cost 0.5\n"
    )


def test_the_page_of_a_run_that_cannot_be_read_says_why() -> None:
    facts = RunFacts(state(AgentSituation.COMPLETED), (), (), None, "what the run said was erased.")
    assert plain(run_page(facts, HINTS, NOW)).endswith("\n\nwhat the run said was erased.\n")


def test_the_page_of_a_run_that_goes_nowhere_says_what_to_do() -> None:
    active = state(AgentSituation.RUNNING)
    assert plain(run_page(RunFacts(active, (), (), None), HINTS, NOW)).endswith(
        "\nif no process drives it: pilotage runs resume 0123456789ab --app shop:app\n"
    )
    awaiting = state(AgentSituation.USER_INTERRUPTED, awaits="user_message")
    assert plain(run_page(RunFacts(awaiting, (), (), None), HINTS, NOW)).endswith(
        "\nanswer it: pilotage runs send 0123456789ab TEXT --app shop:app\n"
    )
    steered = state(AgentSituation.USER_INTERRUPTED, awaits="steering_instruction")
    assert plain(run_page(RunFacts(steered, (), (), None), HINTS, NOW)).endswith(
        "\nanswer it: pilotage runs send 0123456789ab TEXT --steering --app shop:app\n"
    )
    cancelling = state(AgentSituation.CANCELLING, awaits="approval_decision")
    assert plain(run_page(RunFacts(cancelling, (), (), None), HINTS, NOW)).endswith(
        "\nif no process drives it: pilotage runs resume 0123456789ab --app shop:app\n"
    )


def test_the_page_of_a_run_without_progress_shows_its_claims_and_its_last_error() -> None:
    claims = ClaimRecord(
        3, NOW - timedelta(seconds=20), "ValueError: bad\n  in pay\x1b", NOW + timedelta(seconds=9)
    )
    facts = RunFacts(state(AgentSituation.RUNNING), (), (), None, claims=claims)
    page = plain(run_page(facts, HINTS, NOW))
    assert "claims   3 without progress, the last 20 s ago, the next from " in page
    assert "\n\nlast error\nValueError: bad\n  in pay\\x1b\n" in page
    quiet = RunFacts(state(AgentSituation.RUNNING), (), (), None, claims=replace(claims, count=0))
    assert "claims" not in plain(run_page(quiet, HINTS, NOW))


def test_the_page_of_a_quarantined_run_shows_its_last_error() -> None:
    metadata = {"poison": {"claims": 5, "problem": "ValueError: bad\n  in pay"}}
    poisoned = state(AgentSituation.POISONED, metadata=metadata)
    page = plain(run_page(RunFacts(poisoned, (), (), None), HINTS, NOW))
    assert "status   quarantined\n" in page
    assert "\n\nlast error\nValueError: bad\n  in pay\n" in page
    assert page.endswith("\nif no process drives it: pilotage runs resume 0123456789ab --app shop:app\n")


def test_how_a_run_came_out() -> None:
    done = RunResult(state(AgentSituation.COMPLETED), spent=BudgetAmount(1, 0, 9))
    assert plain(ending_lines(done, HINTS, is_durable=False, is_asked=False)) == (
        "✓ completed: 1 model call, 9 tokens\n"
    )
    failed = RunResult(
        state(AgentSituation.TIMED_OUT), error={"code": "agent_timeout", "message": "too slow"}
    )
    assert plain(ending_lines(failed, HINTS, is_durable=True, is_asked=False)) == (
        "✗ failed: too slow (agent_timeout)\ndetails: pilotage runs show 0123456789ab --app shop:app\n"
    )


def test_a_run_that_waits_for_no_answer_says_why() -> None:
    away = state(AgentSituation.MODEL_UNAVAILABLE, current_activity="the server cannot be reached")
    assert plain(ending_lines(RunResult(away), HINTS, is_durable=True, is_asked=False)) == (
        "waits for its model: the server cannot be reached\n"
        "if no process drives it: pilotage runs resume 0123456789ab --app shop:app\n"
        "details: pilotage runs show 0123456789ab --app shop:app\n"
    )


def narrated(*events: AgentEvent, reasoning: bool = False) -> str:
    """Pieces go on where the last one ended, lines stand alone."""
    narrator, text = EventFormatter(RUN, has_reasoning=reasoning), ""
    for each in (told for event in events for told in narrator.format(event)):
        if isinstance(each, TextSpan):
            text += each.text
        else:
            text += "" if not text or text.endswith("\n") else "\n"
            text += plain([each]) if each else ""
    return text


def call(by: AgentEventAttribution = BY, arguments: str = '{"to":"bob"}') -> list[AgentEvent]:
    return [
        ToolCallStartEvent(by, "c1", "pay"),
        ToolCallArgsDeltaEvent(by, "c1", arguments[:4]),
        ToolCallArgsDeltaEvent(by, "c1", arguments[4:]),
        ToolCallEndEvent(by, "c1"),
    ]


def test_a_run_is_told_as_it_goes() -> None:
    from pilotage.runtime.events.projections import ITEM_FIELDS

    assert narrated(
        RunStartedEvent(BY),
        StepStartedEvent(BY, "model-1"),
        StepStartedEvent(BY, "Searching", {ITEM_FIELDS: {"current_step": None}}),
        ReasoningDeltaEvent(BY, "r1", "hmm"),
        MessageDeltaEvent(BY, "m1", "Let me "),
        MessageDeltaEvent(BY, "m1", "see.\x1b[2J"),
        *call(),
        ToolCallResultEvent(BY, "c1", "pay", "m1", {"ok": True}),
        MessageDeltaEvent(BY, "m2", "Done."),
        ArtifactEvent(BY, "a1", {"pages": 2}, "report"),
        RunFinishedEvent(BY),
    ) == (
        '· Searching\nLet me see.\\x1b[2J\n● pay(to="bob")\n  └ {"ok": true}\nDone.\n· report: {"pages": 2}\n'
    )


def test_reasoning_is_told_on_request() -> None:
    assert narrated(ReasoningDeltaEvent(BY, "r1", "hmm"), reasoning=True) == "hmm"


def test_what_a_child_does_stands_behind_its_name() -> None:
    assert narrated(
        RunStartedEvent(OF_CHILD),
        *call(OF_CHILD),
        MessageDeltaEvent(OF_CHILD, "m1", "found it"),
        RunPausedEvent(OF_CHILD, AgentStateReason.APPROVAL_REQUIRED, "?", CHILD),
    ) == ('  [scout] begins\n  [scout] ● pay(to="bob")\n  [scout]\nfound it\n  [scout] waits\n')


def test_calls_of_two_runs_that_have_one_id_are_kept_apart() -> None:
    start, piece, rest, end = call()
    start_of_child, piece_of_child, rest_of_child, end_of_child = call(OF_CHILD, '{"to":"eve"}')
    assert narrated(start, start_of_child, piece, piece_of_child, rest_of_child, rest, end, end_of_child) == (
        '● pay(to="bob")\n  [scout] ● pay(to="eve")\n'
    )


def test_a_result_of_a_call_from_before_is_told_with_its_name() -> None:
    assert narrated(ToolCallResultEvent(BY, "c9", "pay", "m1", "paid")) == "● pay\n  └ paid\n"


@pytest.mark.parametrize(("arguments", "shown"), [("not json", "not json"), ("[1]", "[1]"), ("", "")])
def test_arguments_of_a_model_that_cannot_write_are_told_as_they_came(arguments: str, shown: str) -> None:
    assert narrated(*call(arguments=arguments)) == f"● pay({shown})\n"


def test_an_event_for_programs_says_whose_it_is() -> None:
    assert event_json(MessageDeltaEvent(OF_CHILD, "m1", "hi"), "1.2.0") == {
        "cursor": "1.2.0",
        "run_id": CHILD,
        "agent": "scout",
        "parent_run_id": RUN,
        "kind": "message_delta",
        "message_id": "m1",
        "delta": "hi",
    }


def test_findings_are_told_with_the_way_out() -> None:
    findings = [
        well("database", "there"),
        note("model", "no server is named", "name one"),
        off("key", "a\nb"),
    ]
    assert plain(finding_lines(findings)) == (
        "✓  database  there\n·  model     no server is named\n             name one\n✗  key       a\n             b\n"
    )
    assert (code_of_findings(findings), code_of_findings(findings[:2])) == (1, 0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.004, "4 ms"), (0.5, "500 ms"), (12, "12 s"), (90, "2 min"), (7_200, "2 h"), (200_000, "2 d")],
)
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    assert length(seconds) == words


def test_moments_ago() -> None:
    assert ago(NOW, NOW) == "just now"
    assert ago(None, NOW) == ""
    assert short(f"{RUN}:{CHILD}") == "0123456789ab:fedcba987654"


def test_an_empty_line_is_a_line() -> None:
    empty: Line = ()
    assert plain([empty]) == "\n"
