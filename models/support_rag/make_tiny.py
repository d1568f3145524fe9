"""Make a tiny Llama with random weights as a Hugging Face folder: it proves layout and loading, not answers.

Run it with `python -m models.support_rag.make_tiny`. It needs no torch: the safetensors format is a JSON header and
raw tensors (https://github.com/huggingface/safetensors#format), and the tokenizer knows bytes and no merges.
The same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.prediction.prompts import messages
from serving.prediction.requests import SupportRequest

SEED = 31
HIDDEN = 128
LAYERS = 2
HEADS = 4
KEY_VALUE_HEADS = 2  # model.toml splits the model over two GPUs: one head each
INNER = 256
MAX_TOKENS = 4096  # as max_model_len in model.toml
SPECIAL = ("<|begin|>", "<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>")
BEGIN, END, PAD = SPECIAL[:3]
VOCABULARY = 256 + len(SPECIAL)

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_HEADER = struct.Struct("<Q")
_ALIGNMENT = 8

Half = npt.NDArray[np.float16]


def byte_letters() -> list[str]:
    """Give the printable letter that byte-level BPE writes for each byte (GPT-2's `bytes_to_unicode`)."""
    shown = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


def tensors(seed: int) -> dict[str, Half]:
    """Draw every weight of the model, named as transformers' LlamaForCausalLM names it."""
    rng = np.random.default_rng(seed)
    head = HIDDEN // HEADS
    narrow = KEY_VALUE_HEADS * head
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            f"{prefix}self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": (narrow, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": (narrow, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"{prefix}mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{prefix}mlp.up_proj.weight": (INNER, HIDDEN),
            f"{prefix}mlp.down_proj.weight": (HIDDEN, INNER),
        }
    drawn = {name: rng.normal(0.0, 1.0 / math.sqrt(shape[1]), shape) for name, shape in shapes.items()}
    ones = np.ones(HIDDEN)
    norms = {
        f"model.layers.{layer}.{place}_layernorm.weight": ones
        for layer in range(LAYERS)
        for place in ("input", "post_attention")
    }
    return {name: value.astype(np.float16) for name, value in {**drawn, **norms, "model.norm.weight": ones}.items()}


def safetensors(weights: Mapping[str, Half]) -> bytes:
    """Give the bytes of a safetensors file, tensors sorted by name."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, value in sorted(weights.items()):
        header[name] = {"dtype": "F16", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    little = (np.ascontiguousarray(value, dtype="<f2").tobytes() for _, value in sorted(weights.items()))
    return b"".join((_HEADER.pack(len(text)), text, *little))


def config() -> dict[str, Any]:
    """Give `config.json`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": MAX_TOKENS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "vocab_size": VOCABULARY,
        "bos_token_id": 256 + SPECIAL.index(BEGIN),
        "eos_token_id": 256 + SPECIAL.index(END),
        "pad_token_id": 256 + SPECIAL.index(PAD),
    }


def tokenizer() -> dict[str, Any]:
    """Give `tokenizer.json` of the tokenizers library: one token a byte."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 256 + place, "content": text, **flags} for place, text in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letter: number for number, letter in enumerate((*byte_letters(), *SPECIAL))},
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """Give `tokenizer_config.json` with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": MAX_TOKENS,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def write(folder: Path, *, seed: int = SEED) -> None:
    """Write the folder's files."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {key: config()[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    documents = {
        "config.json": config(),
        "generation_config.json": {**numbers, "do_sample": False, "max_new_tokens": 64},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tokenizer_config(),
        "special_tokens_map.json": {"bos_token": BEGIN, "eos_token": END, "pad_token": PAD},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(tensors(seed)))


def write_samples(folder: Path) -> None:
    """Write a body of the prediction API, and what the generator is asked for it."""
    folder.mkdir(exist_ok=True)
    question = SupportRequest(
        session_id="session_000001",
        question="Why is my video not monetised yet?",
        passages=(
            "A channel can be monetised once it has 1,000 followers and 4,000 hours watched in twelve months.",
            "Each new video is reviewed before advertisements are shown on it; this takes up to 24 hours.",
        ),
        stream=False,
    )
    asked = {"model": "support_rag", "messages": messages(question), "max_tokens": 64, "stream": False}
    for name, document in (("request.json", asked), ("api.json", asdict(question))):
        (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Write the folder that model.toml names, or another, and the samples."""
    parser = argparse.ArgumentParser(description="write a tiny random Llama as a Hugging Face folder")
    default = Path(__file__).parent / "weights" / "tiny-random"
    parser.add_argument("--out", type=Path, default=default, help="folder to write to")
    write(parser.parse_args().out)
    write_samples(Path(__file__).parent / "samples")


if __name__ == "__main__":
    main()
