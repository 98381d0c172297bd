"""Patterns of streaming redaction, and the policy that holds them.

A pattern is accepted only if its matches can be decided exactly, whatever the chunks, within bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from pilotage.checks import reject_blank, reject_empty, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import REDACTED_VALUE
from pilotage.safety.redaction.cost import is_fixed, is_small, readings
from pilotage.safety.redaction.program import longest_hold
from pilotage.safety.redaction.scanner import Rule, Rules, scan
from pilotage.safety.redaction.syntax import UnsupportedPatternError, parse
from pilotage.values import value


class StreamingGuardFailureMode(StrEnum):
    """Report of a failed audit: by an exception, or in the result of the session."""

    RAISE = "raise"
    EMIT_ERROR = "emit_error"


@value
class StreamingRedactionMatch:
    """The place of a match, never its text."""

    pattern_name: str
    start: int
    end: int
    metadata: JsonObject = field(default_factory=dict[str, JsonValue], hash=False)

    def to_payload(self) -> JsonObject:
        """Return the match as JSON."""
        payload: dict[str, JsonValue] = {
            "pattern_name": self.pattern_name,
            "start": self.start,
            "end": self.end,
        }
        return {**payload, "metadata": self.metadata} if self.metadata else payload


@value
class StreamingSensitivePattern:
    """A regular expression whose matches are replaced by a literal text.

    Some patterns can keep a candidate undecided without end, such as `BEGIN.*?END` before its END has come.
    They need a `max_candidate_length`: a candidate that is still open after so many characters counts as a
    match that goes on for as long as the pattern can, so that nothing leaks and nothing piles up.

    Raises:
        AgentDefinitionError: the pattern is no regular expression, or cannot be decided while text streams.
    """

    name: str
    pattern: str
    replacement: str = REDACTED_VALUE
    metadata: JsonObject = field(default_factory=dict[str, JsonValue], hash=False)
    max_candidate_length: int | None = None
    rule: Rule = field(init=False, repr=False, compare=False)
    longest_hold: int = field(init=False, repr=False, compare=False)
    _rules: Rules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, pattern=self.pattern)
        reject_not_positive(self, max_candidate_length=self.max_candidate_length)
        try:
            re.compile(self.pattern)
            rule = Rule(parse(self.pattern), self.replacement, self.max_candidate_length or 0)
            rules = Rules([rule])
        except (re.error, OverflowError, RecursionError) as error:
            raise AgentDefinitionError(
                f"{self._title}: {self.pattern!r} is no regular expression: {error}. Correct it, or use "
                "re.escape() if the text is meant literally."
            ) from error
        except UnsupportedPatternError as error:
            raise AgentDefinitionError(f"{self._title} {error.construct}. {error.instead}.") from error
        hold = self._bounded(longest_hold(rules.program))
        self._reject_expensive(rules, hold)
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "longest_hold", hold)
        object.__setattr__(self, "_rules", rules)

    def redact(self, value: str) -> tuple[str, int]:
        """Return the text with every match of this pattern replaced, and how many there were."""
        return _redacted(self._rules, value)

    def find_matches(self, value: str) -> tuple[StreamingRedactionMatch, ...]:
        """Return the matches of this pattern, from left to right."""
        return _found(self._rules, [self], value)

    @property
    def _title(self) -> str:
        return f"StreamingSensitivePattern {self.name!r}"

    def _reject_expensive(self, rules: Rules, hold: int) -> None:
        if is_fixed(rules.trees[0]) or is_small(rules.program, hold):
            return
        try:
            readings(rules.program, rules.automaton, hold)
        except UnsupportedPatternError as error:
            raise AgentDefinitionError(
                f"{self._title}: {self.pattern!r} {error.construct}. {error.instead}."
            ) from error

    def _bounded(self, hold: int | None) -> int:
        limits = [length for length in (hold, self.max_candidate_length) if length is not None]
        if not limits:
            raise AgentDefinitionError(
                f"{self._title} can keep text undecided without end. Bound what comes before the match is "
                r"certain, e.g. {1,64} instead of +, leave out a \b after a greedy \w+, or give the pattern "
                "a max_candidate_length."
            )
        return min(limits)


@value
class StreamingRedactionPolicy:
    """The patterns of a stream.

    A text is redacted in one scan from left to right: the leftmost match of any pattern wins, of several at
    one place the pattern that is listed first, and the scan goes on after the match. `buffer_size` bounds
    how many characters may ever be held back; a policy that cannot keep the bound is refused.
    """

    patterns: Sequence[StreamingSensitivePattern]
    buffer_size: int = 64
    emit_chunk_size: int | None = None
    failure_mode: StreamingGuardFailureMode = StreamingGuardFailureMode.RAISE
    rules: Rules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reject_not_positive(self, buffer_size=self.buffer_size, emit_chunk_size=self.emit_chunk_size)
        reject_empty(self, patterns=self.patterns)
        object.__setattr__(self, "patterns", tuple(self.patterns))
        longest = max(self.patterns, key=lambda pattern: pattern.longest_hold)
        if longest.longest_hold > self.buffer_size:
            raise AgentDefinitionError(
                f"StreamingRedactionPolicy.buffer_size is {self.buffer_size}, but the pattern "
                f"{longest.name!r} may have to hold back {longest.longest_hold} characters. Use "
                f"buffer_size={longest.longest_hold} or more, or bound the pattern more tightly."
            )
        object.__setattr__(self, "rules", Rules([pattern.rule for pattern in self.patterns]))

    def redact(self, value: str) -> tuple[str, int]:
        """Return a whole text with every match replaced, and how many there were."""
        return _redacted(self.rules, value)

    def find_matches(self, value: str) -> tuple[StreamingRedactionMatch, ...]:
        """Return the matches in a whole text, from left to right."""
        return _found(self.rules, self.patterns, value)


def _redacted(rules: Rules, text: str) -> tuple[str, int]:
    pieces, spans = scan(rules, text)
    return "".join(piece if isinstance(piece, str) else piece.outcome for piece in pieces), len(spans)


def _found(
    rules: Rules, patterns: Sequence[StreamingSensitivePattern], text: str
) -> tuple[StreamingRedactionMatch, ...]:
    _, spans = scan(rules, text)
    return tuple(
        StreamingRedactionMatch(
            patterns[span.pattern].name, span.start, span.end, patterns[span.pattern].metadata
        )
        for span in spans
    )
