"""Every wrong definition of safety, with the exact words of its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

import pytest

from pilotage.errors import AgentDefinitionError, PilotageError
from pilotage.safety import (
    PII,
    CredentialRef,
    MaskingKey,
    SecretField,
    SecretRef,
    SensitiveField,
    SensitiveFieldDescriptor,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
    TrustLabel,
    find_sensitive_fields,
)


@dataclass
class Unresolvable:
    """Names a type that does not exist."""

    email: "Nowhere"  # type: ignore[name-defined]  # noqa: F821, UP037


def pattern(source: str, **options: int) -> Callable[[], object]:
    return lambda: StreamingSensitivePattern("key", source, max_candidate_length=options.get("limit"))


def policy(**options: int) -> Callable[[], object]:
    mail = StreamingSensitivePattern("mail", r"\b\w{1,64}@\w{1,63}\.\w{2,}")
    return lambda: StreamingRedactionPolicy([mail], **options)


BLANK = " is blank. Give it at least one visible character"
WRONG: list[tuple[str, Callable[[], object], type[PilotageError], str]] = [
    ("credential id", lambda: CredentialRef(" "), AgentDefinitionError, f"CredentialRef.id{BLANK}."),
    (
        "credential provider",
        lambda: CredentialRef("a", provider=""),
        AgentDefinitionError,
        f"CredentialRef.provider{BLANK}, or leave it out.",
    ),
    ("secret id", lambda: SecretRef(""), AgentDefinitionError, f"SecretRef.id{BLANK}."),
    (
        "sensitive label",
        lambda: SensitiveField(PII.NAME, label=" "),
        AgentDefinitionError,
        f"SensitiveField.label{BLANK}, or leave it out.",
    ),
    (
        "secret label",
        lambda: SecretField(label=""),
        AgentDefinitionError,
        f"SecretField.label{BLANK}, or leave it out.",
    ),
    (
        "masking key id",
        lambda: MaskingKey("a:b", bytes(32)),
        AgentDefinitionError,
        "MaskingKey.id is 'a:b'. Use letters, digits, '.', '_' and '-' only, e.g. '2026-11'.",
    ),
    (
        "masking key secret",
        lambda: MaskingKey("k", b"short"),
        AgentDefinitionError,
        "MaskingKey.secret has 5 bytes. Use at least 16 random bytes, e.g. secrets.token_bytes(32).",
    ),
    (
        "descriptor position",
        lambda: SensitiveFieldDescriptor(("a",), SecretField(), (2,)),
        AgentDefinitionError,
        (
            "SensitiveFieldDescriptor.each_value_at is (2,), but the path has only the positions 0 to 1. "
            "Use positions in the path."
        ),
    ),
    (
        "descriptor kind",
        lambda: SensitiveFieldDescriptor.from_metadata(
            {"path": [], "field": {"kind": "odd", "redaction": "drop"}}
        ),
        AgentDefinitionError,
        "The kind of a sensitive field is 'odd'. Use 'sensitive' or 'secret'.",
    ),
    (
        "sensitive keys",
        lambda: find_sensitive_fields(dict[Annotated[str, SecretField()], int]),
        AgentDefinitionError,
        (
            "The keys of dict[typing.Annotated[str, SecretField(redaction=<RedactionPolicy.REFERENCE_ONLY: "
            "'reference_only'>, label=None, metadata={})], int] are marked as sensitive, but keys are shown as they "
            "are. Move the sensitive text into the values, e.g. use a list of dataclasses."
        ),
    ),
    (
        "unresolvable annotation",
        lambda: find_sensitive_fields(Unresolvable),
        AgentDefinitionError,
        (
            "The annotations of Unresolvable cannot be resolved: name 'Nowhere' is not defined. Define or import "
            "every type they name at the top level of the module."
        ),
    ),
    (
        "annotation that is a text",
        lambda: find_sensitive_fields(cast(type, list["Nowhere"])),  # type: ignore[name-defined]  # noqa: F821
        AgentDefinitionError,
        (
            "The annotations of 'Nowhere' cannot be resolved: it is a text, not a type. Define or import every type "
            "they name at the top level of the module."
        ),
    ),
    (
        "origin",
        lambda: TrustLabel(origins=frozenset({" "})),
        AgentDefinitionError,
        f"TrustLabel.origins{BLANK}.",
    ),
    (
        "label payload",
        lambda: TrustLabel.from_payload({"integrity": "odd"}),
        AgentDefinitionError,
        (
            "TrustLabel.from_payload: {'integrity': 'odd'} is no trust label. Give it what TrustLabel.to_payload "
            "returned."
        ),
    ),
    (
        "pattern name",
        lambda: StreamingSensitivePattern(" ", "a"),
        AgentDefinitionError,
        f"StreamingSensitivePattern.name{BLANK}.",
    ),
    ("pattern text", pattern(" "), AgentDefinitionError, f"StreamingSensitivePattern.pattern{BLANK}."),
    (
        "pattern syntax",
        pattern("a("),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key': 'a(' is no regular expression: missing ), unterminated subpattern at "
            "position 1. Correct it, or use re.escape() if the text is meant literally."
        ),
    ),
    (
        "pattern that matches nothing at all",
        pattern("a*"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' matches the empty text. Make at least one character mandatory, e.g. '+' "
            "instead of '*'."
        ),
    ),
    (
        "pattern with a back-reference",
        pattern(r"(a)\1"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' uses a back-reference or an octal escape at position 3. Write the "
            r"repeated part out, or the character as \xHH."
        ),
    ),
    (
        "pattern with an anchor",
        pattern("a$"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' uses the anchor '$' at position 1. A stream has no lines and no known "
            r"end: use \b, or a look-around such as (?!\w)."
        ),
    ),
    (
        "pattern with a long look-ahead",
        pattern("a(?=bc)"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' looks at more than one neighbouring character at position 4. Let a "
            r"look-around hold a single character or class, e.g. (?!\d) or (?<![\w.])."
        ),
    ),
    (
        "pattern with a possessive quantifier",
        pattern("a++b"),
        AgentDefinitionError,
        "StreamingSensitivePattern 'key' uses a possessive quantifier before position 3. Use the plain quantifier.",
    ),
    (
        "pattern with an atomic group",
        pattern("(?>a)"),
        AgentDefinitionError,
        "StreamingSensitivePattern 'key' uses an atomic group at position 0. Use a plain group (?:...).",
    ),
    (
        "pattern with a conditional group",
        pattern("(a)(?(1)b|c)"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' uses a conditional group at position 3. Write both cases as "
            "alternatives, e.g. (?:a|b)."
        ),
    ),
    (
        "pattern with blanks that do not count",
        pattern("(?x)a b"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' uses the flag 'x' at position 4. Write the pattern without blanks and "
            "comments, with the flags i, s, a or m only."
        ),
    ),
    (
        "pattern that repeats nothing",
        pattern("(?:a*)+b"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' repeats something that may be empty before position 7. Make what is "
            "repeated match at least one character, e.g. '(?:a+)?' instead of '(?:a*)*'."
        ),
    ),
    (
        "pattern that repeats too much",
        pattern("(?:a{200}){200}"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' repeats too much: its counted repetitions multiply to more than 20000 "
            "characters. Use '*' or '+' with max_candidate_length instead of large counts."
        ),
    ),
    (
        "pattern that never decides",
        pattern("BEGIN.*?END"),
        AgentDefinitionError,
        (
            "StreamingSensitivePattern 'key' can keep text undecided without end. Bound what comes before the match "
            r"is certain, e.g. {1,64} instead of +, leave out a \b after a greedy \w+, or give the pattern a "
            "max_candidate_length."
        ),
    ),
    (
        "candidate length",
        pattern("a.*?b", limit=-1),
        AgentDefinitionError,
        "StreamingSensitivePattern.max_candidate_length is -1. Use a positive number, or leave it out.",
    ),
    (
        "no patterns",
        lambda: StreamingRedactionPolicy([]),
        AgentDefinitionError,
        "StreamingRedactionPolicy.patterns is empty. Give it at least one member.",
    ),
    (
        "buffer size",
        policy(buffer_size=0),
        AgentDefinitionError,
        "StreamingRedactionPolicy.buffer_size is 0. Use a positive number.",
    ),
    (
        "chunk size",
        policy(buffer_size=200, emit_chunk_size=-5),
        AgentDefinitionError,
        "StreamingRedactionPolicy.emit_chunk_size is -5. Use a positive number, or leave it out.",
    ),
    (
        "buffer too small for the pattern",
        policy(),
        AgentDefinitionError,
        (
            "StreamingRedactionPolicy.buffer_size is 64, but the pattern 'mail' may have to hold back 130 characters. "
            "Use buffer_size=130 or more, or bound the pattern more tightly."
        ),
    ),
]


@pytest.mark.parametrize(
    ("define", "error", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_a_wrong_definition_says_what_to_write_instead(
    define: Callable[[], object], error: type[PilotageError], message: str
) -> None:
    with pytest.raises(error) as caught:
        define()
    assert str(caught.value) == message
