"""Values that must not be found in any sink, each planted in one place, and the search for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum

from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern

POLICY = StreamingRedactionPolicy(
    [
        StreamingSensitivePattern("email", r"\b[a-z0-9]{3,20}@[a-z]{3,20}\.example\b", "[EMAIL]"),
        StreamingSensitivePattern("card", r"\b\d{4}-\d{4}-\d{4}-\d{4}\b", "[CARD]"),
        StreamingSensitivePattern("token", r"\btok_[A-Za-z0-9]{8,24}\b", "[TOKEN]"),
    ]
)


class Canary(StrEnum):
    """What is planted. The name says where; a `SECRET_` comes from the secrets port, and no policy knows its form."""

    SECRET_IN_ANSWER = "s1-violet-anchor-Qx71"
    SECRET_IN_REASONING = "s2-copper-lantern-Rk82"
    SECRET_IN_TOOL_RESULT = "s3-silent-harbour-Tz93"
    SECRET_IN_TOOL_ERROR = "s4-narrow-compass-Wm14"
    SECRET_IN_EXCEPTION = "s5-frozen-ladder-Yb25"
    SECRET_IN_TOOL_ARGUMENTS = "s6-hollow-meadow-Pd36"
    SECRET_IN_STEP_RESULT = "s7-bright-kettle-Lf47"
    SECRET_IN_COMMENT = "s8-wooden-falcon-Hg58"
    SECRET_IN_RECOVERY_RESULT = "s9-gentle-thunder-Nc69"
    SECRET_IN_NEXT_INPUT = "s10-quiet-saddle-Vj70"
    SECRET_IN_METADATA = "s11-distant-pepper-Kr81"
    SECRET_IN_CHILD = "s12-ancient-button-Sw92"
    EMAIL_IN_INPUT = "input11@leaks.example"
    EMAIL_IN_METADATA = "metadata12@leaks.example"
    EMAIL_IN_COMMENT = "comment13@leaks.example"
    EMAIL_IN_ANSWER = "answer14@leaks.example"
    EMAIL_IN_CANCEL_REASON = "reason15@leaks.example"
    EMAIL_IN_PROGRESS = "progress16@leaks.example"
    EMAIL_IN_TOOL_ERROR = "toolerror17@leaks.example"
    CARD_IN_TOOL_RESULT = "4111-0000-0000-0018"
    CARD_IN_RECOVERY_RESULT = "4111-0000-0000-0019"
    CARD_IN_STEP_RESULT = "4111-0000-0000-0020"
    TOKEN_IN_EXCEPTION = "tok_exception0021"
    TOKEN_IN_RUN_EXCEPTION = "tok_runexception22"
    TOKEN_IN_SIGNAL = "tok_signal000023"
    TOKEN_IN_MEMORY = "tok_memory000024"
    TOKEN_IN_EVIDENCE = "tok_evidence0025"
    TOKEN_IN_CHILD = "tok_child0000026"
    TOKEN_IN_CONTEXT_PACK = "tok_pack00000027"
    ACCOUNT_IN_SENSITIVE_ARGUMENT = "DE-ACCOUNT-0815-28"
    STATE_OF_PROVIDER = "signature-of-a-provider-29"
    SECRET_IN_SHARED_STATE = "s13-humble-cactus-Bz13"
    EMAIL_IN_SHARED_STATE = "state30@leaks.example"
    TOKEN_IN_STATE_KEY = "tok_statekey0031"
    TOKEN_IN_STATE_PATCH = "tok_patch000032"
    EMAIL_IN_PAGE_STATE = "pagestate33@leaks.example"
    EMAIL_IN_PAGE_CONTEXT = "pagecontext34@leaks.example"
    EMAIL_IN_PAGE_HISTORY = "pagehistory35@leaks.example"
    TOKEN_IN_PAGE_TOOL = "tok_pagetool0036"
    EMAIL_IN_PAGE_METADATA = "pagemeta37@leaks.example"
    EMAIL_IN_FOLDED_TURN = "folded38@leaks.example"
    EMAIL_IN_NAME_OF_FILE = "file39@leaks.example"
    SECRET_IN_FOLDED_TURN = "s14-marble-orchid-Df14"

    @property
    def is_secret(self) -> bool:
        """Whether the secrets port hands it out."""
        return self.name.startswith("SECRET_")


SECRETS: Mapping[str, Canary] = {each.name.lower(): each for each in Canary if each.is_secret}


def text_of(value: object) -> str:
    """What is searched: the text itself, bytes as text, anything else as it is shown."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else repr(value)


def leaks(sinks: Mapping[str, object], canaries: Iterable[Canary] = Canary) -> list[str]:
    """Name each canary that is in a sink, with the text around it."""
    found: list[str] = []
    for sink, value in sinks.items():
        text = text_of(value)
        for canary in canaries:
            for form in {canary.value, json.dumps(canary.value)[1:-1]}:
                at = text.find(form)
                if at >= 0:
                    around = text[max(0, at - 160) : at + len(form) + 40]
                    found.append(f"{canary.name} in {sink}: ...{around}...")
    return found
