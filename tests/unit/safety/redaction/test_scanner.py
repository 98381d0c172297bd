"""What the scanner releases, replaces and holds, character by character."""

from __future__ import annotations

import pytest

from pilotage.safety.redaction.scanner import HeldText, Replaced, Resumed, Rule, Rules, Scanner, Span, scan
from pilotage.safety.redaction.syntax import parse


def test_text_leaves_once_and_in_order() -> None:
    held = HeldText()
    assert held.add("abc") == 0
    assert held.add("def") == 3
    held.release(2)
    held.release(1)
    held.replace("#", "c")
    held.swallow(4)
    held.release(6)
    assert held.take(forget=0) == ["ab", Replaced("#", "c"), Resumed("d"), "ef"]
    assert held.take(forget=0) == []


def test_forgotten_text_moves_positions_but_not_the_stream() -> None:
    held = HeldText()
    held.add("abc")
    held.release(2)
    assert held.take(forget=2) == ["ab"]
    assert (held.text, held.offset, held.before(0), held.before(1)) == ("c", 2, "b", "c")
    held.release(1)
    assert held.take(forget=0) == ["c"]


def test_nothing_stands_before_the_start_of_the_stream() -> None:
    held = HeldText()
    held.add("a")
    assert held.take(forget=0) == []
    assert (held.before(0), held.text) == ("", "a")


def test_text_that_is_passed_over_counts() -> None:
    held = HeldText()
    held.pass_over("xyz")
    assert (held.offset, held.before(0), held.text) == (3, "z", "")


def rules_of(*patterns: str | tuple[str, int]) -> Rules:
    """Rules whose matches become <0>, <1>, ...; a number beside a pattern is its limit."""
    pairs = [(pattern, 0) if isinstance(pattern, str) else pattern for pattern in patterns]
    return Rules([Rule(parse(source), f"<{n}>", limit) for n, (source, limit) in enumerate(pairs)])


def letter_by_letter(rules: Rules, text: str) -> list[str]:
    """What each character releases, and in the end what the end does."""
    scanner = Scanner(rules)
    pieces = [scanner.push(character) for character in text] + [scanner.finish()]
    return ["".join(p if isinstance(p, str) else p.outcome for p in step) for step in pieces]


@pytest.mark.parametrize(
    ("patterns", "text", "steps"),
    [
        (["abc"], "xabc", ["x", "", "", "<0>", ""]),
        (["abc"], "abx", ["", "", "abx", ""]),
        (["abc"], "ab", ["", "", "ab"]),
        (["abc"], "aabc", ["", "a", "", "<0>", ""]),
        ([r"sk-\w+"], "sk-ab c", ["", "", "", "<0>", "", " ", "c", ""]),
        ([r"ab\b"], "ab c", ["", "", "<0> ", "c", ""]),
        ([r"ab\b"], "abc", ["", "", "abc", ""]),
        ([r"ab\b"], "ab", ["", "", "<0>"]),
        ([r"ab(?!c)"], "abd", ["", "", "<0>d", ""]),
        ([r"\bab"], "xab ab", ["x", "a", "b", " ", "", "<0>", ""]),
        (["ab|abcd"], "abcd", ["", "<0>", "c", "d", ""]),
        (["abcd|ab"], "abcx", ["", "<0>", "", "cx", ""]),
        (["ab+?"], "abbb", ["", "<0>", "b", "b", ""]),
        (["abcd", "bc"], "abcx", ["", "", "", "a<1>x", ""]),
        (["abcd", "bc"], "abcd", ["", "", "", "<0>", ""]),
        (["abcd", "bc"], "abc", ["", "", "", "a<1>"]),
        (["a[b-d]+!", "ab"], "abcd!", ["", "", "", "", "<0>", ""]),
        (["a[b-d]+!", "ab"], "abcd?", ["", "", "", "", "<1>cd?", ""]),
        (["abc!", r"ab(?:\w{4})?"], "abcdef", ["", "", "", "<1>", "", "", ""]),
        (["abc!", r"ab(?:\w{4})?"], "abcd!", ["", "", "", "<1>", "cd!", ""]),
        (["(?i:é)x"], "Éx😀", ["", "<0>", "😀", ""]),
    ],
)
def test_a_character_is_held_only_while_it_may_belong_to_a_match(
    patterns: list[str], text: str, steps: list[str]
) -> None:
    assert letter_by_letter(rules_of(*patterns), text) == steps


@pytest.mark.parametrize(
    ("patterns", "text", "redacted"),
    [
        ([("<.*?>", 5)], "a<bc>d", "a<0>d"),
        ([("<.*?>", 5)], "a<bcdefgh>d", "a<0>d"),
        ([("<.*?>", 5)], "a<bcdefgh", "a<0>"),
        ([("<.*?>", 5)], "<abc\nxyz", "<abc\nxyz"),
        ([("<.*?>", 5)], "<abcdef\nxyz", "<0>\nxyz"),
        ([("<.*>", 5)], "<a>bc>defg\n<", "<0>defg\n<"),
        ([("<.*>", 5)], "<a>bc>defghij\n<", "<0>\n<"),
        ([r"x\w{1,8}!", (r"x\w*?\?", 3)], "axy!bxabcdefg!", "a<0>b<1>!"),
        ([r"x\w{1,8}!", (r"x\w*?\?", 3)], "xa?", "<1>"),
        ([("a.*?z", 4), "bc"], "abcdefg", "<0>"),
        (["abcde(?:fgh)?", ("c.*?z", 1)], "abcdefgX", "<0>fgX"),
        (["abcde(?:fgh)?", ("c.*?z", 1)], "abcdXz-", "ab<1>-"),
        ([("a.*?z", 4), "bc"], "abc\nbc", "a<1>\n<1>"),
    ],
)
def test_a_candidate_open_for_too_long_counts_as_a_match_while_it_goes_on(
    patterns: list[str | tuple[str, int]], text: str, redacted: str
) -> None:
    rules = rules_of(*patterns)
    pieces, _ = scan(rules, text)
    assert "".join(p if isinstance(p, str) else p.outcome for p in pieces) == redacted
    assert "".join(letter_by_letter(rules, text)) == redacted


def test_an_overdue_match_is_told_at_once_and_held_no_longer() -> None:
    scanner = Scanner(rules_of(("<.*?>", 5)))
    assert scanner.push("a<bcd") == ["a"]
    assert scanner.held == 4
    assert len(scanner.push("e")) == 1
    assert scanner.held == 0
    assert scanner.push("f" * 1000) == []
    assert scanner.held == 0
    assert scanner.push(">g") == [Resumed(">"), "g"]


def test_spans_are_places_in_the_whole_stream() -> None:
    scanner = Scanner(rules_of("ab+", "cd"))
    for chunk in ("xxa", "bb", "bcd", "x", "ab"):
        scanner.push(chunk)
    scanner.finish()
    assert scanner.spans == [Span(0, 2, 6), Span(1, 6, 8), Span(0, 9, 11)]


def test_a_scanner_goes_on_after_a_text_it_did_not_scan() -> None:
    scanner = Scanner(rules_of(r"\bab\b"))
    scanner.push("ab")
    scanner.finish(after="x")
    scanner.resume(text="xyz")
    scanner.push("ab ")
    scanner.finish(after="-")
    scanner.resume(text="--")
    scanner.push("ab")
    scanner.finish(after="-")
    assert scanner.spans == [Span(0, 10, 12)]


def test_matches_with_one_outcome_need_not_be_told_apart() -> None:
    rules = Rules([Rule(parse("a[b-d]{1,9}!"), "#"), Rule(parse("ab"), "#")])
    assert letter_by_letter(rules, "abcd!") == ["", "#", "", "", "", ""]
    assert letter_by_letter(rules, "abcd?") == ["", "#", "", "", "cd?", ""]
