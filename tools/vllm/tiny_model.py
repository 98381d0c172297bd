"""Make a tiny chat model with random weights and a tokenizer of its own; nothing is downloaded.

Run by the Python of the server's environment: `python tiny_model.py FOLDER`. The model talks nonsense, but a server
that binds it to a schema or to a choice of texts makes it say what a test needs, and makes it call tools.
"""

from __future__ import annotations

import json
import keyword
import string
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 4096
END, PAD = "<|end|>", "<|pad|>"
SPEAKERS = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
# One token each, and part of the text: the server's parsers look for them.
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]

TEMPLATE = (
    "{%- if tools %}<|system|>tools: "
    "{%- for tool in tools %}{{ tool.function.name }} {% endfor %}<|end|>{% endif %}"
    "{%- for message in messages %}"
    "<|{{ message.role if message.role in ['system', 'assistant', 'tool'] else 'user' }}|>"
    "{%- if message.content is string %}{{ message.content }}"
    "{%- else %}{% for part in message.content or [] %}{{ part.text }}{% endfor %}{% endif %}"
    "{%- for call in message.tool_calls or [] %}"
    '<tool_call>{"name": {{ call.function.name | tojson }}, "arguments": '
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}}"
    "</tool_call>{% endfor %}"
    "<|end|>{% endfor %}"
    "{%- if add_generation_prompt %}<|assistant|>{% endif %}"
)


def texts() -> list[str]:
    """What the tokenizer learns its pieces from: words of this language, and JSON as tools write it."""
    words = [*keyword.kwlist, *dir(str), *dir(dict), *string.__doc__.split()]
    sentences = [" ".join(words[start : start + 8]) for start in range(0, len(words), 3)]
    objects = [json.dumps({word: number, "name": word}) for number, word in enumerate(words)]
    return sentences + objects


def tokenizer() -> PreTrainedTokenizerFast:
    """Pieces of bytes, so that every text can be written."""
    pieces = Tokenizer(BPE())
    pieces.pre_tokenizer = ByteLevel(add_prefix_space=False)
    pieces.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=700,
        special_tokens=[END, PAD, *SPEAKERS],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator(texts(), trainer)
    pieces.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    made = PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token=END, pad_token=PAD, model_max_length=CONTEXT
    )
    made.chat_template = TEMPLATE
    return made


def main(folder: Path) -> None:
    """Write tokenizer, configuration and weights."""
    torch.set_num_threads(1)
    torch.manual_seed(20261115)
    words = tokenizer()
    end, pad = words.convert_tokens_to_ids([END, PAD])
    shape = LlamaConfig(
        vocab_size=-(-len(words) // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=pad,
        eos_token_id=end,
        pad_token_id=pad,
    )
    folder.mkdir(parents=True, exist_ok=True)
    words.save_pretrained(folder)
    LlamaForCausalLM(shape).to(torch.float32).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
