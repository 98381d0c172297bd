"""Streamed redaction equals redacting the whole text, for every pattern, text and way to cut it.

The oracle is Python's own `re`, asked at every position from left to right. It knows nothing of chunks.
"""

from __future__ import annotations

import random
import re
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import combinations, islice, pairwise, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.random_tests import examples

from pilotage.errors import AgentDefinitionError
from pilotage.safety import (
    StreamingGuardFailureMode,
    StreamingRedactionPolicy,
    StreamingRedactionSession,
    StreamingSensitivePattern,
)

ALPHABET = "abc1 -.Aé\n😀"
LETTERS = [
    "a",
    "b",
    "c",
    "1",
    " ",
    "-",
    r"\.",
    r"\w",
    r"\d",
    r"\s",
    "[ab]",
    "[^a]",
    "[a-c1]",
    r"\W",
    ".",
    "(?i:A)",
    "😀",
]
ASSERTIONS = [r"\b", r"\B", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)", r"(?<![\w.])", r"(?!\d)"]
QUANTIFIERS = ["?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}", "??", "*?", "+?", "{1,3}?"]
TYPICAL = {
    "key": r"\bsk-[A-Za-z0-9]{4,}",
    "aws": r"\bAKIA[0-9A-Z]{4}\b",
    "mail": r"\b[\w.+-]{1,8}@[\w-]{1,8}(?:\.[\w-]{2,8})+",
    "card": r"\b(?:\d[ -]?){5,6}\b",
    "bearer": r"(?i:bearer) [\w.~+/-]+=*",
    "phone": r"(?<!\d)\+?\d{2,3}[ -]\d{3}(?!\d)",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){1,2}",
    "pem": r"--BEGIN (?:KEY|CERT)--(?s:.*?)--END--",
}

FRAGMENTS = ["sk-", "abcd9", "AKIA", "AB12", "bob", "@", "ex", ".com", "12 34", "-", "Bearer ", "x=="]
FRAGMENTS += [" ", "\n", "+49 123", "DE12 ABCD", "--BEGIN KEY--", "--END--", "--", "é", "😀"]


def redacted_by_re(patterns: Sequence[str], text: str) -> tuple[str, list[tuple[int, int]]]:
    """The definition: leftmost match, of several the first pattern's, then on behind it."""
    compiled = [re.compile(pattern) for pattern in patterns]
    output, spans, position = "", [], 0
    while position < len(text):
        matches = ((n, m.end()) for n, p in enumerate(compiled) if (m := p.match(text, position)))
        number, end = next(matches, (-1, position + 1))
        output += text[position] if number < 0 else f"<{number}>"
        if number >= 0:
            spans.append((position, end))
        position = end
    return output, spans


def policy_of(patterns: Sequence[str], limit: int | None = 1000) -> StreamingRedactionPolicy:
    """A policy whose replacements say which pattern matched; the limit is beyond any text of these tests."""
    return StreamingRedactionPolicy(
        [
            StreamingSensitivePattern(f"p{n}", source, f"<{n}>", max_candidate_length=limit)
            for n, source in enumerate(patterns)
        ],
        buffer_size=limit or 1000,
        failure_mode=StreamingGuardFailureMode.EMIT_ERROR,
    )


def streamed(policy: StreamingRedactionPolicy, chunks: Sequence[str]) -> str:
    session = StreamingRedactionSession(policy)
    output = ""
    for chunk in chunks:
        output += "".join(session.push(chunk).chunks)
        assert session.held_char_count <= policy.buffer_size
    return output + "".join(session.finish().chunks)


def cut(text: str, places: Sequence[int]) -> list[str]:
    bounds = [0, *sorted({place for place in places if 0 < place < len(text)}), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def all_cuts(text: str) -> Iterator[list[str]]:
    for count in range(len(text)):
        for places in combinations(range(1, len(text)), count):
            yield cut(text, places)


def accepted(source: str, limit: int | None = 1000) -> bool:
    try:
        re.compile(source)
        StreamingSensitivePattern("x", source, max_candidate_length=limit)
    except (AgentDefinitionError, re.error):
        return False
    return True


def sources_of(leaves: Sequence[str]) -> st.SearchStrategy[str]:
    """Patterns that are made of these."""
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: (
            st.lists(inner, min_size=2, max_size=3).map("".join)
            | st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})")
            | st.tuples(inner, st.sampled_from(QUANTIFIERS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
        ),
        max_leaves=8,
    )


sources = sources_of(LETTERS + ASSERTIONS)
texts = st.text(alphabet=ALPHABET, max_size=24)
cuts = st.lists(st.integers(1, 23), max_size=8)


@examples(100)
@given(st.lists(sources, min_size=1, max_size=3), texts, cuts)
def test_streamed_output_is_the_whole_text_redacted(
    patterns: list[str], text: str, places: list[int]
) -> None:
    assume(all(map(accepted, patterns)))
    policy = policy_of(patterns)
    expected, spans = redacted_by_re(patterns, text)
    assert policy.redact(text) == (expected, len(spans))
    assert [(match.start, match.end) for match in policy.find_matches(text)] == spans
    assert streamed(policy, cut(text, places)) == expected
    assert streamed(policy, list(text)) == expected


def random_source(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if depth == 0 or kind < 0.4:
        return chance.choice(LETTERS if kind < 0.3 else ASSERTIONS)
    parts = [random_source(chance, depth - 1) for _ in range(chance.randint(2, 3))]
    if kind < 0.6:
        return "".join(parts)
    return f"(?:{'|'.join(parts)})" if kind < 0.75 else f"(?:{parts[0]}){chance.choice(QUANTIFIERS)}"


@pytest.mark.parametrize("seed", range(16))
def test_deep_random_patterns_stream_like_the_whole_text(seed: int, exhaustive: bool) -> None:
    """Policies from every seed, a quarter of them; `make torture` tries all."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(120 if exhaustive else 30):
        candidates = (random_source(chance, 3) for _ in range(30))
        patterns = [source for source in candidates if accepted(source)][: chance.randint(1, 4)]
        policy = policy_of(patterns)
        for _ in range(4):
            text = "".join(chance.choices(ALPHABET, k=chance.randint(0, 40)))
            places = chance.sample(range(1, 40), chance.randint(0, 12))
            case = (seed, patterns, text, places)
            assert streamed(policy, cut(text, places)) == redacted_by_re(patterns, text)[0], case


@pytest.mark.parametrize("seed", range(8))
def test_patterns_that_need_no_limit_stream_like_the_whole_text(seed: int, exhaustive: bool) -> None:
    """Policies from every seed, a quarter of them; `make torture` tries all."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(120 if exhaustive else 30):
        candidates = [*(random_source(chance, 3) for _ in range(30)), *TYPICAL.values()]
        chance.shuffle(candidates)
        bounded = (source for source in candidates if accepted(source, None))
        patterns = list(islice(bounded, chance.randint(1, 4)))
        policy = policy_of(patterns, None)
        text = "".join(chance.choices([*ALPHABET, *FRAGMENTS], k=chance.randint(0, 60)))
        places = chance.sample(range(1, 200), chance.randint(0, 60))
        case = (seed, patterns, text, places)
        expected = redacted_by_re(patterns, text)[0]
        assert streamed(policy, cut(text, places)) == expected, case
        assert streamed(policy, list(text)) == expected, case
        assert policy.redact(text)[0] == expected, case


@examples(40)
@given(st.lists(sources, min_size=1, max_size=3), texts, cuts, st.integers(1, 6))
def test_a_candidate_open_for_too_long_ends_alike_for_every_cut(
    patterns: list[str], text: str, places: list[int], limit: int
) -> None:
    assume(all(map(accepted, patterns)))
    policy = policy_of(patterns, limit)
    expected, _ = policy.redact(text)
    assert streamed(policy, cut(text, places)) == expected
    assert streamed(policy, list(text)) == expected


@examples(40)
@given(st.lists(sources_of(LETTERS), min_size=1, max_size=3), texts, cuts, st.sampled_from([3, 1000]))
def test_nothing_that_matches_is_ever_released(
    patterns: list[str], text: str, places: list[int], limit: int
) -> None:
    """An assertion may hold only because of a replacement next to it; without assertions no match is left."""
    assume(all(map(accepted, patterns)))
    session = StreamingRedactionSession(policy_of(patterns, limit))
    for chunk in cut(text, places):
        session.push(chunk)
    assert session.finish().error is None


EXHAUSTIVE = [
    (["abc", "bcd", "c"], "xabcdcab"),
    (["ab|abcd", "cde?"], "abcdabcde"),
    (["abcd|ab", "c"], "abcxabcd"),
    ([r"\bab\b", "b-"], "ab-xab ab"),
    ([r"a\w*?c", "bc"], "abbcabb-"),
    (["a+b", "a"], "aaabaaac"),
    (["a{2,3}", "a"], "aaaaaaaa"),
    ([r"(?<!a)b(?!b)", "ab+c"], "abbcbabbb"),
    (["(?i:ß)a", "😀+"], "ẞaßa😀😀a"),
    (["a(?:b*c)?", "bb"], "abbbabbc"),
]


@pytest.mark.parametrize(("patterns", "text"), EXHAUSTIVE)
def test_no_way_to_cut_a_text_changes_the_output(patterns: list[str], text: str) -> None:
    policy = policy_of(patterns)
    expected, _ = redacted_by_re(patterns, text)
    for chunks in all_cuts(text):
        assert streamed(policy, chunks) == expected, chunks


@examples(60)
@given(st.data())
def test_typical_secrets_stream_like_the_whole_text(data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(FRAGMENTS), max_size=16)))
    places = data.draw(st.lists(st.integers(1, 60), max_size=20))
    patterns = data.draw(st.permutations(list(TYPICAL.values())))
    assert streamed(policy_of(patterns), cut(text, places)) == redacted_by_re(patterns, text)[0]


@pytest.mark.parametrize(
    "patterns",
    [
        ["abc"],
        ["ab|abcd"],
        ["a(?:bc)?", "cab"],
        [r"a\b", "bb"],
        ["ab{1,2}c", "bca"],
        ["(?<!b)ac?a", "cc"],
        ["a+?b"],
    ],
)
def test_exactly_what_may_still_match_is_held_back(patterns: list[str]) -> None:
    """Held is the text from the first character on whose fate depends on what follows."""
    policy = policy_of(patterns)
    continuations = ["".join(letters) for n in range(4) for letters in product("abc ", repeat=n)]
    for text in map("".join, product("abc ", repeat=4)):
        session = StreamingRedactionSession(policy)
        session.push(text)
        fates = zip(*(fates_of(text, patterns, more) for more in continuations), strict=True)
        undecided = [position for position, fate in enumerate(fates) if len(set(fate)) > 1]
        assert session.held_char_count == len(text) - min(undecided, default=len(text)), text


def fates_of(text: str, patterns: list[str], more: str) -> list[int | None]:
    """For each character of the text where the match starts that it belongs to, if any."""
    fates: list[int | None] = [None] * len(text + more)
    for start, end in redacted_by_re(patterns, text + more)[1]:
        fates[start:end] = [start] * (end - start)
    return fates[: len(text)]


def test_text_without_a_candidate_is_released_in_the_same_call() -> None:
    policy = StreamingRedactionPolicy(
        [StreamingSensitivePattern(name, TYPICAL[name]) for name in ("key", "aws", "card", "iban")]
    )
    session = StreamingRedactionSession(policy)
    for chunk in ("The ", "report", " is done, ", "nothing", " to ", "hide.\n") * 20:
        assert session.push(chunk).chunks == (chunk,)


def test_memory_does_not_grow_with_the_text() -> None:
    policy = policy_of([r"sk-\w+", r"\b[\w.]{1,30}@\w{1,20}\.\w{2,}", r"<(?s:.*?)>"], limit=200)
    session = StreamingRedactionSession(policy)
    chunks = ["some words, ", "sk-", "a" * 500, " bob@", "example.com ", "<", "open " * 100, "> ", "x" * 300]
    for chunk in chunks * 3:
        session.push(chunk)
    tracemalloc.start()
    try:
        for _ in range(200):
            for chunk in chunks:
                session.push(chunk)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 30_000
    result = session.finish()
    assert result.error is None
    assert result.audit is not None
    assert result.audit.detected_count == 203 * 3
