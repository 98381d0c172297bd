"""Repeated content and material without use, as tables."""

from __future__ import annotations

import pytest

from pilotage.agent import ContextPack, ContextPackRole, ContextSensitivity, ModelMessage, ModelToolCall
from pilotage.context import TRANSCRIPT_ENTRY, repeated_packs, repeated_results, unused_packs

EVIDENCE = ContextPackRole.EVIDENCE
LARGE = "volcano glacier meadow " * 200


def pack(pack_id: str, content: str = LARGE, role: ContextPackRole = EVIDENCE) -> ContextPack:
    return ContextPack(pack_id, content, "crm", role)


@pytest.mark.parametrize(
    ("contents", "repeated"),
    [
        (["x", "y"], []),
        (["x", "x"], ["1"]),
        (["x", " x\n", "y", "x"], ["1", "3"]),
        (["", ""], []),
        (["x", "X"], []),
    ],
)
def test_a_pack_is_repeated_where_an_earlier_one_has_its_content(
    contents: list[str], repeated: list[str]
) -> None:
    packs = [pack(str(number), content) for number, content in enumerate(contents)]
    assert [each.pack_id for each in repeated_packs(packs, manifest_ref="m")] == repeated


def test_the_same_pack_twice_is_not_reported_by_its_own_id() -> None:
    assert repeated_packs([pack("a"), pack("a")], manifest_ref="m") == ()


def test_packs_whose_content_is_hidden_repeat_each_other_as_the_model_sees_them() -> None:
    hidden = [
        ContextPack(each, each, "crm", EVIDENCE, sensitivity=ContextSensitivity.REDACTED)
        for each in ("a", "b")
    ]
    assert [each.pack_id for each in repeated_packs(hidden, manifest_ref="m")] == ["b"]


@pytest.mark.parametrize(
    ("results", "score"),
    [(["ok", "ok"], None), (["x" * 300, "y" * 300], None), (["x" * 300, "x" * 300], 0.5)],
)
def test_long_results_that_come_again_pollute_a_transcript(results: list[str], score: float | None) -> None:
    messages = [ModelMessage.tool(f"call-{number}", text) for number, text in enumerate(results)]
    found = repeated_results(messages, manifest_ref="m")
    assert [(each.pack_id, each.score) for each in found] == ([(TRANSCRIPT_ENTRY, score)] if score else [])


def said(text: str, **arguments: str) -> ModelMessage:
    return ModelMessage.assistant(text, [ModelToolCall("look", arguments, "call-1")] if arguments else [])


IDLE = said("Nothing to report.")


@pytest.mark.parametrize(
    ("shown", "before", "replies", "is_unused"),
    [
        (pack("a"), 0, [IDLE] * 3, True),
        (pack("a"), 0, [IDLE] * 2, False),
        (pack("a"), 1, [IDLE] * 3, False),
        (pack("a"), 1, [IDLE] * 4, True),
        (pack("a", "short"), 0, [IDLE] * 3, False),
        (pack("a", role=ContextPackRole.INSTRUCTION), 0, [IDLE] * 3, False),
        (pack("a-17"), 0, [IDLE, IDLE, said("See a-17.")], False),
        (pack("a"), 0, [IDLE, said("A volcano, a glacier, a meadow."), IDLE], False),
        (pack("a"), 0, [IDLE, IDLE, said("", what="Volcano glacier MEADOW")], False),
        (pack("a"), 2, [said("volcano glacier meadow"), IDLE, IDLE, IDLE, IDLE], True),
    ],
)
def test_a_large_pack_is_unused_when_no_reply_since_takes_from_it(
    shown: ContextPack, before: int, replies: list[ModelMessage], is_unused: bool
) -> None:
    messages = [ModelMessage.user("What is new?"), *replies]
    found = unused_packs([shown], messages, lambda _: before, manifest_ref="m")
    assert bool(found) is is_unused


def test_words_of_the_question_are_no_use_of_a_pack() -> None:
    messages = [ModelMessage.user("A volcano, a glacier, a meadow?"), *[said("volcano glacier meadow")] * 3]
    (found,) = unused_packs([pack("a", LARGE + "lava basalt " * 9)], messages, lambda _: 0, manifest_ref="m")
    assert found.metadata["replies"] == 3
