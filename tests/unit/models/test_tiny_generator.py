"""The tiny generator is a whole Hugging Face folder, and the same one each time."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from model_packaging.vllm import folder_problems
from models.support_rag.make_tiny import byte_letters, write
from serving.prediction.prompts import messages
from serving.prediction.requests import support_request

FOLDER = "models/support_rag/weights/tiny-random"


@pytest.fixture(name="folder")
def folder_fixture(root: Path) -> Path:
    return root / FOLDER


def test_the_folder_is_less_than_a_megabyte_and_free_of_problems(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    assert list(folder_problems(folder)) == []


def test_the_committed_folder_is_what_the_script_writes(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "again")
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in (tmp_path / "again").iterdir()} == names
    for name in names - {"model.safetensors"}:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_safetensors_hold_what_the_configuration_needs(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    assert header["model.embed_tokens.weight"]["shape"] == [vocabulary, hidden]
    narrow = config["num_key_value_heads"] * config["head_dim"]
    for layer in range(config["num_hidden_layers"]):
        assert header[f"model.layers.{layer}.self_attn.k_proj.weight"]["shape"] == [narrow, hidden]
        assert header[f"model.layers.{layer}.mlp.down_proj.weight"]["shape"] == [hidden, config["intermediate_size"]]
    start, end = header["model.embed_tokens.weight"]["data_offsets"]
    values = np.frombuffer(data[8 + size + start : 8 + size + end], dtype="<f2")
    assert np.isfinite(values).all()
    assert float(values.std()) == pytest.approx(hidden**-0.5, rel=0.02)


def test_every_byte_has_one_letter_and_one_token(folder: Path) -> None:
    letters = byte_letters()
    assert len(set(letters)) == 256
    # the published table of GPT-2: a space is written as capital G with a dot, a line feed as capital C with a dot
    assert (letters[ord(" ")], letters[ord("\n")], letters[ord("a")], letters[0xFF]) == ("Ġ", "Ċ", "a", "ÿ")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert [vocabulary[letter] for letter in letters] == list(range(256))
    assert len(vocabulary) == json.loads((folder / "config.json").read_text())["vocab_size"]


def test_two_gpus_can_share_its_heads(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["num_attention_heads"] % 2 == 0
    assert config["num_key_value_heads"] % 2 == 0


def test_the_sample_request_is_what_the_api_asks_for_the_sample_body(root: Path) -> None:
    samples = root / "models/support_rag/samples"
    asked = json.loads((samples / "request.json").read_text())
    assert asked["messages"] == messages(support_request((samples / "api.json").read_bytes()))
