"""Train the moderator's stand-in on drawn scenes and write its weights.

Run it with `python -m models.content_moderator.train`; `scenes.py` says what is drawn and which class it has.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from PIL import Image

from model_packaging.export import IR_VERSION, export_network, parity_with_torch, save, tidy, torch_answers
from model_packaging.inference import Answer, Arrays
from models.content_moderator.graph import OPSET, join, title_graph
from models.content_moderator.scenes import LABELS, SIDE, Examples, ImageArray, draw_examples, vocabulary, word_numbers
from models.training import (
    data_digest,
    image_columns,
    seed_torch,
    spec_of,
    weights_folder,
    write_records,
    write_samples,
)

VERSION = "1.0.0"
SEED = 11
TRAINING_EXAMPLES = 6_000
HELD_OUT_SEED = 12
HELD_OUT_EXAMPLES = 2_000
EPOCHS = 4
BATCH_ROWS = 32
PARITY_ROWS = 200
OUTPUTS = ("scores",)
WORD_WIDTH = 16
HIDDEN_TITLES = 0.05

Scores = npt.NDArray[np.float32]


def make_network(torch: Any, word_count: int) -> Any:  # noqa: ANN401 - torch has no types here
    """Give image (N, 64, 64, 3) uint8 and words (N, T) int64 → class probabilities (N, 3)."""
    nn = torch.nn

    def block(into: int, out: int, stride: int) -> Any:  # noqa: ANN401
        return nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    class Moderator(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            widths = ((3, 24, 2), (24, 48, 2), (48, 80, 1), (80, 112, 2), (112, 112, 1))
            self.picture = nn.Sequential(*(block(*width) for width in widths))
            self.words = nn.Embedding(word_count, WORD_WIDTH, padding_idx=0)
            self.head = nn.Sequential(nn.Linear(2 * 112 + 2 * WORD_WIDTH, 64), nn.ReLU(), nn.Linear(64, len(LABELS)))

        def logits(self, image: Any, words: Any) -> Any:  # noqa: ANN401
            pixels = image.permute(0, 3, 1, 2).to(torch.float32) / 127.5 - 1.0
            maps = self.picture(pixels)
            known = (words != 0)[:, :, None]
            vectors = torch.where(known, self.words(words), 0.0)
            mean = vectors.sum(dim=1) / known.sum(dim=1).clamp(min=1)
            # a title's strongest word counts as much in a long title; 0 stands for no word
            strongest = torch.cat([vectors, torch.zeros_like(vectors[:, :1])], dim=1).amax(dim=1)
            features = [maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3)), mean, strongest]
            return self.head(torch.cat(features, dim=1))

        def forward(self, image: Any, words: Any) -> Any:  # noqa: ANN401
            return torch.softmax(self.logits(image, words), dim=1)

    return Moderator()


def fit(torch: Any, data: Examples, *, epochs: int = EPOCHS) -> Any:  # noqa: ANN401
    """Train by AdamW on cross-entropy with a one-cycle rate; pictures are mirrored, few titles hidden."""
    words = torch.from_numpy(word_numbers(data.titles))
    network = make_network(torch, max(vocabulary().values()) + 1)
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    steps = epochs * (len(labels) // BATCH_ROWS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=steps)
    loss_of = torch.nn.CrossEntropyLoss()
    for _ in range(epochs):
        order = torch.randperm(len(labels))
        for start in range(0, len(labels) - BATCH_ROWS + 1, BATCH_ROWS):
            rows = order[start : start + BATCH_ROWS]
            flipped = torch.rand(BATCH_ROWS, 1, 1, 1) < 0.5  # noqa: PLR2004 - a fair coin
            mirrored = torch.where(flipped, images[rows].flip(2), images[rows])
            shown = words[rows] * (torch.rand(BATCH_ROWS, 1) >= HIDDEN_TITLES)
            optimiser.zero_grad()
            loss_of(network.logits(mirrored, shown), labels[rows]).backward()
            optimiser.step()
            schedule.step()
    return network.eval()


def export(torch: Any, network: Any) -> onnx.ModelProto:  # noqa: ANN401
    """Give the whole graph: strings and pixels in, probabilities out."""
    inputs = {
        "image": torch.zeros(2, SIDE, SIDE, 3, dtype=torch.uint8),
        "words": torch.zeros(2, 5, dtype=torch.int64),
    }
    exported = export_network(network, inputs, output_names=OUTPUTS, opset=OPSET, free={"words": {1: "T"}})
    return tidy(join(title_graph(vocabulary(), ir_version=IR_VERSION), exported), ir_version=IR_VERSION)


def reference_of(network: Any) -> Answer:  # noqa: ANN401
    """Give the network behind the words that Python finds in a title, not the graph."""
    answer = torch_answers(network, output_names=OUTPUTS)

    def ask(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
        titles = tuple(title.decode() for title in arrays["title"].ravel())
        return answer({"image": arrays["image"], "words": word_numbers(titles)})

    return ask


def title_tensor(titles: Sequence[str] | Sequence[bytes]) -> npt.NDArray[np.object_]:
    """Give titles as ONNX Runtime takes them, (rows, 1); of `bytes` it would read the Python notation, b'…'."""
    tensor = np.empty((len(titles), 1), dtype=np.object_)
    tensor[:, 0] = titles
    return tensor


def scores_of(session: ort.InferenceSession, images: ImageArray, titles: tuple[str, ...]) -> Scores:
    """Give class probabilities (rows, 3)."""
    parts = [
        session.run(["scores"], {"image": images[at : at + 100], "title": title_tensor(titles[at : at + 100])})[0]
        for at in range(0, len(images), 100)
    ]
    scores: Scores = np.concatenate(parts)
    return scores


def measure(session: ort.InferenceSession, data: Examples, scores: Scores) -> dict[str, float]:
    """Give accuracy, log loss, recall and precision a class, and what remains when one input is hidden."""
    chosen, rows = scores.argmax(axis=1), np.arange(len(data.labels))
    metrics = {
        "accuracy": float((chosen == data.labels).mean()),
        "log_loss": float(-np.log(np.maximum(scores[rows, data.labels], 1e-7)).mean()),
    }
    for index, label in enumerate(LABELS):
        metrics[f"recall_{label}"] = float((chosen[data.labels == index] == index).mean())
        metrics[f"precision_{label}"] = float((data.labels[chosen == index] == index).mean())
    without_title = scores_of(session, data.images, ("",) * len(data.titles))
    without_image = scores_of(session, np.full_like(data.images, 128), data.titles)
    metrics["accuracy_without_title"] = float((without_title.argmax(axis=1) == data.labels).mean())
    metrics["accuracy_without_image"] = float((without_image.argmax(axis=1) == data.labels).mean())
    return metrics


def baseline_columns(data: Examples, scores: Scores) -> dict[str, npt.NDArray[Any]]:
    """Give the watched columns; the length of a title is that of its UTF-8 bytes."""
    return {
        **image_columns(data.images),
        "title.length": np.array([len(title.encode()) for title in data.titles]),
        "scores.nsfw": scores[:, LABELS.index("nsfw")],
        "scores.violence": scores[:, LABELS.index("violence")],
    }


def sample(data: Examples) -> None:
    """Write one held-out example as samples, and its picture as JPEG."""
    picture = BytesIO()
    Image.fromarray(data.images[0]).save(picture, "JPEG", quality=92)
    image = np.asarray(Image.open(picture), dtype=np.uint8)[None]
    body = {
        "content_id": "content_000001",
        "title": data.titles[0],
        "image_base64": base64.b64encode(picture.getvalue()).decode(),
    }
    write_samples(__file__, {"image": image, "title": title_tensor([data.titles[0].encode()])}, body)
    (Path(__file__).parent / "samples" / "thumbnail.jpg").write_bytes(picture.getvalue())


def main() -> None:
    """Train, write the version's files and print what was reached."""
    folder = weights_folder(__file__)
    torch = seed_torch(SEED)
    data = draw_examples(SEED, TRAINING_EXAMPLES)
    path = folder / f"{VERSION}.onnx"
    network = fit(torch, data)
    model = export(torch, network)
    save(model, path)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    held_out = draw_examples(HELD_OUT_SEED, HELD_OUT_EXAMPLES)
    titles = [title.encode() for title in held_out.titles[:PARITY_ROWS]]
    shown = {"image": held_out.images[:PARITY_ROWS], "title": title_tensor(titles)}
    parity = parity_with_torch(model, reference_of(network), spec_of(__file__), samples=[shown])
    scores = scores_of(session, held_out.images, held_out.titles)
    metrics = measure(session, held_out, scores)
    write_records(
        folder / VERSION,
        metrics=metrics,
        data_sha256=data_digest(data.images, word_numbers(data.titles), data.labels),
        seed=SEED,
        script=__file__,
        columns=baseline_columns(held_out, scores),
        parity=parity,
    )
    sample(held_out)
    print(VERSION, " ".join(f"{name}={value:.4f}" for name, value in metrics.items()))


if __name__ == "__main__":
    main()
