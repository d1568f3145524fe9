"""Train the thumbnail scorer on crops degraded in known ways and write its weights.

Run it with `python -m models.thumbnail_scorer.train`; `photographs.py` says what is degraded and how.
"""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from PIL import Image

from model_packaging.accuracy import rank_correlation
from model_packaging.export import export_network, parity_with_torch, save, torch_answers
from models.thumbnail_scorer.photographs import (
    DEGRADATIONS,
    HELD_OUT,
    SIDE,
    TRAINING,
    Crops,
    ImageArray,
    crop,
    degrade,
    draw_crops,
    photograph,
)
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
OUTPUTS = ("score",)
SEED = 21
TRAINING_CROPS = 8_000
HELD_OUT_SEED = 22
HELD_OUT_CROPS = 1_500
EPOCHS = 8
BATCH_ROWS = 64
PARITY_ROWS = 200

Scores = npt.NDArray[np.float32]


def make_network(torch: Any) -> Any:  # noqa: ANN401 - torch has no types here
    """Give image (N, 96, 96, 3) uint8 → score (N, 1)."""
    nn = torch.nn

    def block(into: int, out: int, stride: int) -> Any:  # noqa: ANN401
        return nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    class Scorer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            widths = ((3, 24, 2), (24, 32, 1), (32, 48, 2), (48, 64, 2), (64, 96, 2))
            self.maps = nn.Sequential(*(block(*width) for width in widths))
            self.head = nn.Sequential(nn.Linear(2 * 96, 64), nn.ReLU(), nn.Linear(64, 1))

        def logits(self, image: Any) -> Any:  # noqa: ANN401
            maps = self.maps(image.permute(0, 3, 1, 2).to(torch.float32) / 127.5 - 1.0)
            return self.head(torch.cat([maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3))], dim=1))

        def forward(self, image: Any) -> Any:  # noqa: ANN401
            return torch.sigmoid(self.logits(image))

    return Scorer()


def fit(torch: Any, data: Crops, *, epochs: int = EPOCHS) -> Any:  # noqa: ANN401
    """Train by AdamW on the cross-entropy of soft targets, with a one-cycle rate."""
    network = make_network(torch)
    images, quality = torch.from_numpy(data.images), torch.from_numpy(data.quality)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    steps = epochs * (len(quality) // BATCH_ROWS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=steps)
    loss_of = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        order = torch.randperm(len(quality))
        for start in range(0, len(quality) - BATCH_ROWS + 1, BATCH_ROWS):
            rows = order[start : start + BATCH_ROWS]
            optimiser.zero_grad()
            loss_of(network.logits(images[rows]), quality[rows]).backward()
            optimiser.step()
            schedule.step()
    return network.eval()


def export(torch: Any, network: Any) -> onnx.ModelProto:  # noqa: ANN401
    """Give the whole graph: pixels in, score out."""
    inputs = {"image": torch.zeros(2, SIDE, SIDE, 3, dtype=torch.uint8)}
    return export_network(network, inputs, output_names=OUTPUTS)


def scores_of(session: ort.InferenceSession, images: ImageArray) -> Scores:
    """Give the score of each image (rows, 1)."""
    parts = [session.run(["score"], {"image": images[at : at + 100]})[0] for at in range(0, len(images), 100)]
    scores: Scores = np.concatenate(parts)
    return scores


def measure(session: ort.InferenceSession, data: Crops, scores: Scores) -> dict[str, float]:
    """Give rank correlation and mean error on unseen photographs, and one rank correlation a degradation."""
    metrics = {
        "spearman": rank_correlation(scores, data.quality),
        "mean_absolute_error": float(np.abs(scores - data.quality).mean()),
        "quality_deviation": float(data.quality.std()),
    }
    for name in DEGRADATIONS:
        images, severities = ladder(name)
        metrics[f"spearman_{name}"] = rank_correlation(scores_of(session, images), 1.0 - severities)
    return metrics


def ladder(name: str, *, rungs: int = 20, crops: int = 10) -> tuple[ImageArray, npt.NDArray[np.float64]]:
    """Give crops of unseen photographs, each spoiled by one degradation in equal steps from 0 to 1."""
    rng = np.random.default_rng(HELD_OUT_SEED + 1)
    pictures = [crop(rng, photograph(HELD_OUT[index % len(HELD_OUT)])) for index in range(crops)]
    severities = np.linspace(0.0, 1.0, rungs)
    images = [degrade(rng, picture, {name: float(severity)}) for picture in pictures for severity in severities]
    return np.stack(images), np.tile(severities, crops)


def sample() -> None:
    """Write an unspoiled crop of an unseen photograph in the public domain as samples."""
    picture = BytesIO()
    crop(np.random.default_rng(HELD_OUT_SEED), photograph(HELD_OUT[0])).save(picture, "JPEG", quality=92)
    image = np.asarray(Image.open(picture), dtype=np.uint8)[None]
    body = {"content_id": "content_000002", "image_base64": base64.b64encode(picture.getvalue()).decode()}
    write_samples(__file__, {"image": image}, body)
    (Path(__file__).parent / "samples" / "thumbnail.jpg").write_bytes(picture.getvalue())


def main() -> None:
    """Train, write the version's files and print what was reached."""
    folder = weights_folder(__file__)
    torch = seed_torch(SEED)
    data = draw_crops(SEED, TRAINING_CROPS, TRAINING, varied=True)
    path = folder / f"{VERSION}.onnx"
    network = fit(torch, data)
    model = export(torch, network)
    save(model, path)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    held_out = draw_crops(HELD_OUT_SEED, HELD_OUT_CROPS, HELD_OUT)
    reference = torch_answers(network, output_names=OUTPUTS)
    shown = {"image": held_out.images[:PARITY_ROWS]}
    parity = parity_with_torch(model, reference, spec_of(__file__), samples=[shown])
    scores = scores_of(session, held_out.images)
    metrics = measure(session, held_out, scores)
    write_records(
        folder / VERSION,
        metrics=metrics,
        data_sha256=data_digest(data.images, data.quality),
        seed=SEED,
        script=__file__,
        columns={**image_columns(held_out.images), "score": scores.ravel()},
        parity=parity,
    )
    sample()
    print(VERSION, " ".join(f"{name}={value:.4f}" for name, value in metrics.items()))


if __name__ == "__main__":
    main()
