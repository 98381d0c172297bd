"""A chat model that says what is written here: a GGUF file of two megabytes, made by the standard library.

Each token leads to one other token: embeddings are unit vectors, the output matrix is the table of successors, and
the layer between them is zero. The chat template looks at the conversation and ends the prompt with the token that
begins the right script.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

END, PAD = "<|end|>", "<|pad|>"
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
AGAIN = "again"
SCRIPTS: dict[str, list[str]] = {
    "<|say|>": ["Good", " day", ", Countess."],
    "<|after|>": ["The", " ports", " are found."],
    "<|call|>": [
        "<tool_call>",
        '\n{"name": "lookup"',
        ', "arguments": {"key"',
        ': "ports"',
        "}}\n",
        "</tool_call>",
    ],
    "<|muse|>": [
        "<thi",
        "nk>Which",
        " ports?",
        "</thi",
        "nk><tool",
        '_call>\n{"name":',
        ' "lookup", "arguments":',
        ' {"key": "ports"}}\n</tool',
        "_call>",
    ],
    "<|recall|>": ["As I", " thought."],
    "<|plan|>": ['{"city"', ': "Oslo"', ', "days"', ": 3}"],
    "<|think|>": ["<think>", "Let me", " see.", "</think>", "So", " be it."],
    "<|count|>": [" one", " two", " three", AGAIN],
}
TEMPLATE = r"""
{%- if tools %}<|system|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|end|>{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|tool|>{{ message.content }}<|end|>
{%- elif message.role == 'assistant' %}<|assistant|>
{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}{% set f = call.function if call.function else call %}
<tool_call>
{"name": {{ f.name | tojson }}, "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}
</tool_call>{% endfor %}<|end|>
{%- else %}<|{{ 'system' if message.role == 'system' else 'user' }}|>{{ message.content }}<|end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>
{%- set last = messages[-1] %}{% set said = last.content if last.content is string else '' %}
{%- if last.role == 'tool' and messages[-2].reasoning_content %}<|recall|>
{%- elif last.role == 'tool' %}<|after|>
{%- elif tools and 'Muse' in said %}<|muse|>
{%- elif tools %}<|call|>
{%- elif 'Plan' in said %}<|plan|>
{%- elif 'Think' in said %}<|think|>
{%- elif 'Count' in said %}<|count|>
{%- else %}<|say|>
{%- endif %}
{%- endif %}""".strip()
NORMAL, CONTROL, OWN, UNUSED = 1, 3, 4, 5


@dataclass
class Vocabulary:
    """The tokens, their kinds, and which one follows which."""

    tokens: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    successors: dict[int, int] = field(default_factory=dict)

    def add(self, text: str, kind: int, shown: str | None = None) -> int:
        if text not in self.ids:
            self.ids[text] = len(self.tokens)
            self.tokens.append(text if shown is None else shown)
            self.kinds.append(kind)
        return self.ids[text]

    def add_script(self, first: str, words: Sequence[str]) -> None:
        at = self.ids[first]
        for word in words:
            if word == AGAIN:
                self.successors[at] = self.ids[words[0]]
                return
            following = self.add(word, NORMAL, "".join(BYTES[byte] for byte in word.encode()))
            self.successors[at] = following
            at = following
        self.successors[at] = self.ids[END]


def _printable() -> list[str]:
    """The character that byte-level tokenizers write for each byte."""
    own = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in own else next(others)) for byte in range(256)]


BYTES = _printable()


def vocabulary() -> Vocabulary:
    """Every byte, the marks, and the words of the scripts."""
    made = Vocabulary()
    for byte in BYTES:
        made.add(f"byte {byte}", NORMAL, byte)
    for text in (END, PAD, "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", *SCRIPTS):
        made.add(text, CONTROL)
    for text in MARKS:
        made.add(text, OWN)
    for first, words in SCRIPTS.items():
        made.add_script(first, words)
    while len(made.tokens) % 32:
        made.add(f"[{len(made.tokens)}]", UNUSED)
    return made


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _facts(words: Vocabulary) -> list[bytes]:
    size = len(words.tokens)
    numbers = {
        "llama.context_length": 4096,
        "llama.embedding_length": size,
        "llama.block_count": 1,
        "llama.feed_forward_length": 32,
        "llama.attention.head_count": size // 32,
        "llama.attention.head_count_kv": 1,
        "llama.rope.dimension_count": 32,
        "llama.vocab_size": size,
        "tokenizer.ggml.eos_token_id": words.ids[END],
        "tokenizer.ggml.bos_token_id": words.ids[PAD],
        "tokenizer.ggml.padding_token_id": words.ids[PAD],
    }
    texts = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.chat_template": TEMPLATE,
    }
    kinds = b"".join(struct.pack("<i", kind) for kind in words.kinds)
    return [
        *(_string(name) + struct.pack("<II", 4, number) for name, number in numbers.items()),
        *(_string(name) + struct.pack("<I", 8) + _string(text) for name, text in texts.items()),
        _string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
        _string("tokenizer.ggml.add_bos_token") + struct.pack("<I?", 7, False),
        _string("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, size)
        + b"".join(map(_string, words.tokens)),
        _string("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, size) + kinds,
        _string("tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 0),
    ]


def _matrix(rows: int, columns: int, ones: Sequence[tuple[int, int]] = ()) -> tuple[tuple[int, ...], bytes]:
    numbers = array("f", bytes(4 * rows * columns))
    for row, column in ones:
        numbers[row * columns + column] = 1.0
    return (columns, rows), numbers.tobytes()


def _tensors(words: Vocabulary) -> dict[str, tuple[tuple[int, ...], bytes]]:
    size = len(words.tokens)
    flat = (size,), array("f", [1.0] * size).tobytes()
    following = [(words.successors.get(each, words.ids[END]), each) for each in range(size)]
    square, narrow, wide = _matrix(size, size), _matrix(32, size), _matrix(size, 32)
    layer = {"attn_q": square, "attn_k": narrow, "attn_v": narrow, "attn_output": square}
    layer |= {"attn_norm": flat, "ffn_norm": flat, "ffn_gate": narrow, "ffn_up": narrow, "ffn_down": wide}
    return {
        "token_embd.weight": _matrix(size, size, [(each, each) for each in range(size)]),
        "output_norm.weight": flat,
        "output.weight": _matrix(size, size, following),
        **{f"blk.0.{name}.weight": tensor for name, tensor in layer.items()},
    }


def write_model(path: Path) -> None:
    """Write the model as a GGUF file."""
    words = vocabulary()
    facts, tensors = _facts(words), _tensors(words)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)) + b"".join(facts)
    data = b""
    for name, (shape, numbers) in tensors.items():
        place = struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += _string(name) + place + struct.pack("<IQ", 0, len(data))
        data += numbers + bytes(-len(numbers) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
