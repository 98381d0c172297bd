"""The redactor of a run: patterns and secrets, in whole values and streamed texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.exposure.redactor import NO_REDACTOR, Redactor
from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)

MAIL = StreamingSensitivePattern("mail", r"\w{1,16}@\w{1,16}", "[MAIL]")
CARD = StreamingSensitivePattern("card", r"\b\d{8}\b")
TOKEN = StreamingSensitivePattern("token", r"TOKEN-\d+")
POLICY = StreamingRedactionPolicy([TOKEN, MAIL, CARD])
SECRET = "sk-12:ab"
# Taking "ab" out of "aabb" leaves "ab" behind: what is emitted matches again.
JOINING = StreamingSensitivePattern("ab", "ab", replacement="")


def both() -> Redactor:
    redactor = Redactor(POLICY)
    redactor.register(SECRET)
    return redactor


def test_a_redactor_with_nothing_to_look_for_gives_back_what_it_got() -> None:
    redactor = Redactor()
    value: JsonValue = {"a": ["TOKEN-1"]}
    assert redactor.is_idle
    assert redactor.json(value) is value
    assert redactor.text("TOKEN-1") == "TOKEN-1"
    session = redactor.session()
    assert [*session.push("TOKEN-1"), *session.push(""), *session.finish()] == ["TOKEN-1"]
    redactor.audit("TOKEN-1")


def test_a_policy_or_a_secret_ends_the_idleness() -> None:
    assert not Redactor(POLICY).is_idle
    redactor = Redactor()
    assert redactor.register(SECRET)
    assert not redactor.is_idle


def test_patterns_and_secrets_are_replaced_in_texts() -> None:
    assert both().text(f"TOKEN-1, {SECRET}, a@b") == "[REDACTED], [SECRET], [MAIL]"


def test_a_secret_is_taken_literally() -> None:
    redactor = Redactor()
    redactor.register("a.c*(")
    assert redactor.text("abc( a.c*( aacc(") == "abc( [SECRET] aacc("


@pytest.mark.parametrize("secret", ["line\nbreak", 'with "quotes"', "back\\slash", "Zoë's key", "🔑 key"])
def test_a_secret_is_found_as_json_writes_it(secret: str) -> None:
    redactor = Redactor()
    redactor.register(secret)
    for text in (secret, json.dumps({"key": secret}), json.dumps([secret], ensure_ascii=False)):
        shown = redactor.text(f"<{text}>")
        assert "[SECRET]" in shown
        assert secret not in shown
        assert json.dumps(secret)[1:-1] not in shown


def test_blanks_around_a_secret_do_not_count() -> None:
    redactor = Redactor()
    redactor.register("hunter2\n")
    assert redactor.text("it is hunter2.") == "it is [SECRET]."


@pytest.mark.parametrize("secret", ["", " ", "abc", " abc\n"])
def test_a_secret_that_is_too_short_is_not_looked_for(secret: str) -> None:
    redactor = Redactor()
    assert not redactor.register(secret)
    assert redactor.is_idle
    assert redactor.text("abc abc") == "abc abc"


def test_of_two_secrets_at_one_place_the_longer_one_is_replaced() -> None:
    redactor = Redactor()
    for secret in ("abcd", "abcdef"):
        redactor.register(secret)
    assert redactor.text("abcdef abcd") == "[SECRET] [SECRET]"


def test_a_pattern_that_ends_inside_a_secret_does_not_let_the_rest_through() -> None:
    assert both().text(f"a@{SECRET}") == "a@[SECRET]"


def test_each_new_secret_is_a_new_revision() -> None:
    redactor = Redactor()
    assert redactor.revision == 0
    redactor.register("first-secret")
    redactor.register("first-secret")
    assert redactor.revision == 1
    redactor.register("second-secret")
    assert redactor.revision == 2
    assert redactor.text("first-secret second-secret") == "[SECRET] [SECRET]"


def test_beyond_the_limit_the_secrets_that_were_handed_out_first_are_forgotten() -> None:
    redactor = Redactor()
    first, second, third = (f"{name}-" * 30_000 for name in ("first", "again", "third"))
    for secret in (first, second, first, third):
        redactor.register(secret)
    assert redactor.text(f"<{first}{third}>") == "<[SECRET][SECRET]>"
    assert redactor.text(second) == second


def test_strings_and_keys_of_a_value_are_redacted_and_nothing_else_is() -> None:
    value: JsonValue = {"TOKEN-1": [1, True, None, 2.5, "TOKEN-2", ("x", SECRET)], "plain": {"k": "v"}}
    assert both().json(value) == {
        "[REDACTED]": [1, True, None, 2.5, "[REDACTED]", ["x", "[SECRET]"]],
        "plain": {"k": "v"},
    }


def test_a_value_in_which_nothing_is_forbidden_stays_the_same_object() -> None:
    for value in ({"a": [1, "b", {"c": None}], "d": ("e",)}, ["plain"], "plain", 1, None):
        assert both().json(value) is value  # type: ignore[arg-type]


def test_keys_that_become_equal_do_not_pass_for_unchanged() -> None:
    assert both().json({"TOKEN-1": 1, "TOKEN-2": 2}) == {"[REDACTED]": 2}


def test_a_failed_audit_raises_whatever_the_policy_says() -> None:
    for mode in StreamingGuardFailureMode:
        redactor = Redactor(StreamingRedactionPolicy([JOINING], failure_mode=mode))
        session = redactor.session()
        session.push("aabb")
        with pytest.raises(AgentOutputGuardError, match="emitted 1 sensitive"):
            session.finish()
        with pytest.raises(AgentOutputGuardError):
            redactor.audit("aabb")


def test_the_chunks_of_a_policy_stay_as_small_as_it_asks() -> None:
    redactor = Redactor(StreamingRedactionPolicy([TOKEN], emit_chunk_size=4))
    assert redactor.session().push("abcdefghij") == ("abcd", "efgh", "ij")


pieces = st.lists(
    st.sampled_from(
        ["TOKEN", "-", "12", "34567890", "a", "@", "b", " ", SECRET, SECRET[:4], SECRET[4:], "x.y"]
    )
)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({min(each, len(text)) for each in cuts} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(places)]


@given(words=pieces, cuts=st.lists(st.integers(0, 60)))
def test_a_text_that_flows_is_redacted_like_the_whole_text(words: list[str], cuts: list[int]) -> None:
    text = "".join(words)
    redactor = both()
    session = redactor.session()
    shown = [chunk for piece in cut(text, cuts) for chunk in session.push(piece)]
    assert "".join([*shown, *session.finish()]) == redactor.text(text)


def test_a_number_that_stands_alone_only_by_a_replacement_is_not_missed() -> None:
    session = both().session()
    assert [*session.push("34567890TOKEN-12"), *session.finish()] == ["34567890[REDACTED]"]


def test_a_session_that_is_updated_looks_for_new_secrets_in_held_text_too() -> None:
    redactor = Redactor(POLICY)
    session = redactor.session()
    told = [*session.push("no 1234567")]
    redactor.register(SECRET)
    redactor.update(session)
    told += session.push("8, sk-1")
    redactor.register("sk-1-and-more")
    redactor.update(session)
    assert "".join([*told, *session.push("-and-more "), *session.push(SECRET), *session.finish()]) == (
        "no [REDACTED], [SECRET] [SECRET]"
    )


def test_the_redactor_of_all_runs_without_secrets_takes_none() -> None:
    assert NO_REDACTOR.is_always_idle
    assert not Redactor().is_always_idle
    with pytest.raises(AssertionError):
        NO_REDACTOR.register(SECRET)
    assert NO_REDACTOR.text(SECRET) is SECRET
