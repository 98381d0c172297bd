"""What nobody is shown, whoever wrote it: keys that look like keys."""

from __future__ import annotations

from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern

KEYS = StreamingRedactionPolicy(
    [
        StreamingSensitivePattern("api key", r"\bsk-[A-Za-z0-9]{8,}", replacement="[API KEY]"),
        StreamingSensitivePattern("aws key", r"\bAKIA[0-9A-Z]{16}\b", replacement="[AWS KEY]"),
    ],
    buffer_size=256,
)
