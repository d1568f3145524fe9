"""The moderator's words are read inside its graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from models.content_moderator.graph import title_graph
from models.content_moderator.scenes import (
    KINDS,
    LABELS,
    TONES,
    draw,
    draw_examples,
    label_of,
    vocabulary,
    word_numbers,
    write_title,
)
from models.content_moderator.train import HELD_OUT_SEED, scores_of, title_tensor

Opener = Callable[[str, str], ort.InferenceSession]
EXAMPLES = 400


@pytest.fixture(name="session")
def session_fixture(opened: Opener) -> ort.InferenceSession:
    return opened("content_moderator", "1.0.0")


def test_the_graph_numbers_words_as_the_training_does() -> None:
    model = title_graph(vocabulary(), ir_version=10)
    reader = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(4)
    titles = [write_title(rng, tone) for tone in TONES for _ in range(60)]
    titles += ["", "   ", "  two  spaces ", "日本語 🎉 FIGHT!", "fight\tnow", "Fight, fight: FIGHT?", "x" * 5_000]
    np.testing.assert_array_equal(reader.run(None, {"title": title_tensor(titles)})[0], word_numbers(titles))


def test_a_batch_of_empty_titles_has_no_word() -> None:
    model = title_graph(vocabulary(), ir_version=10)
    reader = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert reader.run(None, {"title": title_tensor(["", ""])})[0].tolist() == [[0], [0]]


@pytest.mark.parametrize("title", ["a brutal fight", "A BRUTAL FIGHT!", "Brutal, fight"])
def test_case_and_a_punctuation_mark_change_nothing(session: ort.InferenceSession, title: str) -> None:
    image = draw(np.random.default_rng(8), "plain")[None]
    plain = scores_of(session, image, ("a brutal fight",))
    np.testing.assert_allclose(scores_of(session, image, (title,))[0, 2], plain[0, 2], atol=0.05)
    assert LABELS[int(plain.argmax())] == "violence"


def test_neither_the_picture_nor_the_title_is_enough(session: ort.InferenceSession) -> None:
    splatter = draw(np.random.default_rng(9), "splatter")[None]
    plain = draw(np.random.default_rng(9), "plain")[None]
    chosen = {
        (kind, title): LABELS[int(scores_of(session, image, (title,)).argmax())]
        for kind, image in (("splatter", splatter), ("plain", plain))
        for title in ("my day in the city", "tomato sauce for the weekend", "murder in the street")
    }
    assert chosen == {
        ("splatter", "my day in the city"): "violence",
        ("splatter", "tomato sauce for the weekend"): "safe",
        ("splatter", "murder in the street"): "violence",
        ("plain", "my day in the city"): "safe",
        ("plain", "tomato sauce for the weekend"): "safe",
        ("plain", "murder in the street"): "violence",
    }


def test_every_picture_and_tone_has_one_class() -> None:
    assert {label_of(kind, tone) for kind in KINDS for tone in TONES} == set(LABELS)
    assert label_of("bodies", "neutral") == "nsfw"
    assert label_of("bodies", "craft") == "safe"
    assert label_of("splatter", "adult") == "nsfw"


def test_scores_of_a_row_add_up_to_one(session: ort.InferenceSession) -> None:
    data = draw_examples(77, 12)
    np.testing.assert_allclose(scores_of(session, data.images, data.titles).sum(axis=1), 1.0, atol=1e-5)


def test_the_committed_accuracy_holds_on_a_part_of_the_held_out_examples(
    root: Path, session: ort.InferenceSession
) -> None:
    record = json.loads((root / "models/content_moderator/weights/1.0.0.metrics.json").read_text())
    data = draw_examples(HELD_OUT_SEED + 100, EXAMPLES)
    accuracy = float((scores_of(session, data.images, data.titles).argmax(axis=1) == data.labels).mean())
    margin = 4.0 * (record["metrics"]["accuracy"] * (1.0 - record["metrics"]["accuracy"]) / EXAMPLES) ** 0.5
    assert accuracy == pytest.approx(record["metrics"]["accuracy"], abs=margin)
