"""Train the ranker's two versions in the simulated world and write their weights.

2.0.0 learned from what an old popularity ranking showed: few impressions, the same videos on top again and again,
clicks that fade with the position, and no columns of freshness and quality, which were not collected then.
3.0.0 learned from twice as many impressions in random order, with every column. Run it with
`python -m models.recommendation_ranker.train`; `world.py` says what is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from model_packaging.accuracy import area_under_curve
from model_packaging.export import export_network, parity_with_torch, save, torch_answers
from models.recommendation_ranker.world import (
    FEATURES,
    REQUEST_CANDIDATES,
    WORLD_SEED,
    FloatArray,
    IndexArray,
    RowArray,
    World,
)
from models.training import data_digest, seed_torch, spec_of, weights_folder, write_records, write_samples

OUTPUTS = ("score",)
SKEWED = ("activity", "tenure", "session_length", "popularity", "length", "creator_reach")
NOT_COLLECTED_BEFORE = ("freshness", "completion", "like_ratio", "report_rate", "quality", "novelty")
WATCHED = ("activity", "skip_rate", "session_length", "popularity", "freshness", "quality")
EVALUATION_REQUESTS = 4_000
EVALUATION_SEED = 20_240
BASELINE_ROWS_A_REQUEST = 5
PARITY_ROWS = 10_000
CALIBRATION_REQUESTS = 20
EVALUATED_REQUESTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one version was made."""

    version: str
    requests: int
    random_order: bool
    columns_missing: tuple[str, ...]
    epochs: int
    seed: int


RECIPES = (
    Recipe(version="2.0.0", requests=4_000, random_order=False, columns_missing=NOT_COLLECTED_BEFORE, epochs=3, seed=2),
    Recipe(version="3.0.0", requests=8_000, random_order=True, columns_missing=(), epochs=3, seed=3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impressions:
    """A training log: rows (impressions, 36) and whether each was clicked (impressions, 1)."""

    rows: RowArray
    clicks: RowArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Requests nobody trained on: rows (requests, candidates, 36) and the true click probabilities."""

    rows: RowArray
    truth: FloatArray


def shown(world: World, rng: np.random.Generator, videos: IndexArray, *, random_order: bool) -> IndexArray:
    """Order 20 of the candidates: at random, or as the old ranking did, by views."""
    if random_order:
        return rng.permutation(videos)[:20]
    views = world.video_rows[videos, list(FEATURES).index("popularity") - 16]
    return np.asarray(videos[np.argsort(-views)][:20])


def impressions(world: World, recipe: Recipe) -> Impressions:
    """Replay requests and draw their clicks; a user looks at position k with probability 1 / (1 + k)^0.7."""
    rng = np.random.default_rng(recipe.seed)
    rows, clicks = [], []
    for _ in range(recipe.requests):
        user, videos, context = world.request(rng)
        order = shown(world, rng, videos, random_order=recipe.random_order)
        probability = world.click_probability(user, order, context)
        if not recipe.random_order:
            probability = probability / (1.0 + np.arange(len(order))) ** 0.7
        rows.append(world.features(user, order, context))
        clicks.append(rng.random(len(order)) < probability)
    data = np.concatenate(rows)
    data[:, [FEATURES.index(name) for name in recipe.columns_missing]] = 0.0
    return Impressions(rows=data, clicks=np.concatenate(clicks).astype(np.float32)[:, None])


def make_network(torch: Any, rows: RowArray) -> Any:  # noqa: ANN401 - torch has no types here
    """Give 36 → 64 → 32 → 1; raw columns are standardised inside, a column without variance counts nothing."""
    skewed = torch.tensor([name in SKEWED for name in FEATURES])

    class Ranker(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            values = self.spread(torch.from_numpy(rows))
            deviation = values.std(dim=0)
            scale = torch.where(deviation > 1e-6, 1.0 / deviation.clamp(min=1e-6), torch.zeros(()))  # noqa: PLR2004
            self.register_buffer("mean", values.mean(dim=0))
            self.register_buffer("scale", scale)
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(len(FEATURES), 64),
                torch.nn.ReLU(),
                torch.nn.Linear(64, 32),
                torch.nn.ReLU(),
                torch.nn.Linear(32, 1),
            )

        def spread(self, values: Any) -> Any:  # noqa: ANN401
            return torch.where(skewed, torch.log1p(values.clamp(min=0.0)), values)

        def logits(self, features: Any) -> Any:  # noqa: ANN401
            standard = (self.spread(features) - self.mean) * self.scale
            return self.layers(standard.clamp(-5.0, 5.0))

        def forward(self, features: Any) -> Any:  # noqa: ANN401
            return torch.sigmoid(self.logits(features))

    return Ranker()


def fit(torch: Any, data: Impressions, *, epochs: int, batch_rows: int = 512) -> Any:  # noqa: ANN401
    """Train by Adam on log loss, with a one-cycle learning rate."""
    network = make_network(torch, data.rows)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    rows, clicks = torch.from_numpy(data.rows), torch.from_numpy(data.clicks)
    steps = epochs * (len(rows) // batch_rows)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=steps)
    loss_of = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        order = torch.randperm(len(rows))
        for start in range(0, len(rows) - batch_rows + 1, batch_rows):
            batch = order[start : start + batch_rows]
            optimiser.zero_grad()
            loss_of(network.logits(rows[batch]), clicks[batch]).backward()
            optimiser.step()
            schedule.step()
    return network.eval()


def export(torch: Any, network: Any) -> onnx.ModelProto:  # noqa: ANN401
    """Give the whole graph: raw columns in, score out."""
    return export_network(network, {"features": torch.zeros(2, len(FEATURES))}, output_names=OUTPUTS)


def evaluation(world: World, *, requests: int = EVALUATION_REQUESTS) -> Evaluation:
    """Draw requests of a seed of their own."""
    rng = np.random.default_rng(EVALUATION_SEED)
    rows, truth = [], []
    for _ in range(requests):
        user, videos, context = world.request(rng, REQUEST_CANDIDATES)
        rows.append(world.features(user, videos, context))
        truth.append(world.click_probability(user, videos, context))
    return Evaluation(rows=np.stack(rows), truth=np.stack(truth))


def scores_of(session: ort.InferenceSession, rows: RowArray) -> npt.NDArray[np.float32]:
    """Score rows (…, 36); give (…)."""
    flat = rows.reshape(-1, len(FEATURES))
    score: npt.NDArray[np.float32] = session.run(["score"], {"features": flat})[0]
    return score.reshape(rows.shape[:-1])


def measure(scores: npt.NDArray[np.float32], data: Evaluation) -> dict[str, float]:
    """Give the true click rate of the video ranked first, its bounds, and the AUC on clicks drawn once."""
    best = np.argmax(scores, axis=1)[:, None]
    clicks = np.random.default_rng(EVALUATION_SEED + 1).random(data.truth.shape) < data.truth
    return {
        "ctr_at_1": float(np.take_along_axis(data.truth, best, axis=1).mean()),
        "ctr_random": float(data.truth.mean()),
        "ctr_oracle": float(data.truth.max(axis=1).mean()),
        "auc": area_under_curve(scores.ravel(), clicks.ravel()),
    }


def baseline_columns(rows: RowArray, scores: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """Give the watched columns of a few candidates of every request, drawn at random: many users, any place."""
    rng = np.random.default_rng(EVALUATION_SEED + 2)
    places = rng.permuted(np.tile(np.arange(rows.shape[1]), (len(rows), 1)), axis=1)[:, :BASELINE_ROWS_A_REQUEST]
    few = np.take_along_axis(rows, places[:, :, None], axis=1).reshape(-1, len(FEATURES))
    columns = {name: few[:, FEATURES.index(name)] for name in WATCHED}
    return {**columns, "score": np.take_along_axis(scores, places, axis=1).ravel()}


def train(recipe: Recipe, world: World, data: Evaluation, folder: Path) -> dict[str, float]:
    """Train one version, write its three files, and give its metrics."""
    torch = seed_torch(recipe.seed)
    log = impressions(world, recipe)
    network = fit(torch, log, epochs=recipe.epochs)
    model = export(torch, network)
    held_out = {"features": data.rows.reshape(-1, len(FEATURES))[:PARITY_ROWS]}
    reference = torch_answers(network, output_names=OUTPUTS)
    parity = parity_with_torch(model, reference, spec_of(__file__), samples=[held_out])
    path = folder / f"{recipe.version}.onnx"
    save(model, path)
    scores = scores_of(ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]), data.rows)
    metrics = measure(scores, data)
    write_records(
        folder / recipe.version,
        metrics=metrics,
        data_sha256=data_digest(log.rows, log.clicks),
        seed=recipe.seed,
        script=__file__,
        columns=baseline_columns(data.rows, scores),
        parity=parity,
    )
    return metrics


def quantisation_sets(data: Evaluation, folder: Path) -> None:
    """Write what 3.1.0 is calibrated on and measured by: requests that are no training data, and none in both."""
    clicks = np.random.default_rng(EVALUATION_SEED + 1).random(data.truth.shape) < data.truth
    last = CALIBRATION_REQUESTS + EVALUATED_REQUESTS
    measured = data.rows[CALIBRATION_REQUESTS:last].reshape(-1, len(FEATURES))
    target = clicks[CALIBRATION_REQUESTS:last].ravel().astype(np.uint8)
    np.savez_compressed(
        folder / "3.1.0.calibration.npz", features=data.rows[:CALIBRATION_REQUESTS].reshape(-1, len(FEATURES))
    )
    np.savez_compressed(folder / "3.1.0.evaluation.npz", features=measured, target=target)


def sample(world: World) -> None:
    """Write one request of the world as a sample: ten candidates."""
    user, videos, context = world.request(np.random.default_rng(EVALUATION_SEED), 10)
    body = {
        "user_id": world.users[user],
        "candidates": [world.videos[video] for video in videos],
        "context": context.document(),
    }
    write_samples(__file__, {"features": world.features(user, videos, context)}, body)


def main() -> None:
    """Train every version and print what was reached."""
    folder = weights_folder(__file__)
    world = World(WORLD_SEED)
    data = evaluation(world)
    for recipe in RECIPES:
        metrics = train(recipe, world, data, folder)
        print(recipe.version, " ".join(f"{name}={value:.4f}" for name, value in metrics.items()))
    quantisation_sets(data, folder)
    sample(world)


if __name__ == "__main__":
    main()
