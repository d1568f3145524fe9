"""Drift in the demo: three windows of traffic, compared with the baseline that travels with the version."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import numpy as np

from cli.demo.findings import DriftWindow
from lambdas.drift.run import Drift
from lambdas.drift.settings import read_settings
from lambdas.drift.wiring import drift
from models.recommendation_ranker.world import USER_FIELDS, World
from serving.aws.captures import S3Captures
from serving.aws.features import ValkeyFeatures, connect, features_url
from serving.aws.session import client
from serving.errors import LocalStackError
from serving.features.rows import Row, encode
from serving.features.views import View
from serving.spec import ModelSpec, Slot, endpoint_name

PATIENCE_S = 30.0
_POLL_S = 0.2
_USER_VIEW = "user_profile"


class Watch:
    """Runs drift over what the endpoint captured, and changes the people when asked to."""

    LABELS: ClassVar[tuple[str, ...]] = ("as trained", "drifted", "drifted on")

    def __init__(
        self, runs: Drift, captures: S3Captures, features: ValkeyFeatures, *, model: ModelSpec, stage: str
    ) -> None:
        self._runs = runs
        self._captures = captures
        self._features = features
        self._model = model
        self._endpoint = endpoint_name(stage, model.slug)

    @classmethod
    def from_environment(cls, model: ModelSpec) -> Watch:
        """Take buckets and cache from the environment that the local stack gives."""
        settings = read_settings(os.environ)
        return cls(
            drift(settings),
            S3Captures(client("s3"), bucket=settings.telemetry_bucket),
            ValkeyFeatures(connect(features_url(os.environ))),
            model=model,
            stage=settings.stage.name,
        )

    def windows(self) -> Iterator[tuple[str, datetime]]:
        """Give each window's label and its nominal end: whole windows apart, the last one now.

        The demo's phases last seconds; their metrics are dated as if each had filled its window, so that the alarm
        sees M of N windows by its own rule.
        """
        now, length = datetime.now(UTC), timedelta(seconds=self._model.drift.window_s)
        for index, label in enumerate(self.LABELS):
            yield label, now - (len(self.LABELS) - 1 - index) * length

    def change(self, world: World) -> None:
        """Make everybody far more active, in longer sessions, skipping more: rows change, the model stays."""
        rows = world.user_rows.copy()
        for field, factor in (("activity", 6.0), ("session_length", 3.0), ("skip_rate", 1.6)):
            rows[:, USER_FIELDS.index(field)] *= np.float32(factor)
        view = next(View.of(spec) for spec in self._model.features if spec.view == _USER_VIEW)
        now = datetime.now(UTC)
        encoded = (
            (view.key(user), encode(view, Row(values=row, written_at=now)))
            for user, row in zip(world.users, rows, strict=True)
        )
        self._features.write(encoded, ttl_s=view.ttl_s)

    def opened(self) -> datetime:
        """Begin a window: captures carry whole seconds, so the next one begins with the next second."""
        time.sleep(1.0 - time.time() % 1.0)
        return datetime.now(UTC).replace(microsecond=0)

    def close(self, since: datetime, *, slot: Slot, label: str, at: datetime, requests: int) -> DriftWindow:
        """Wait until the window's requests are captured, run drift over them, and give what it found.

        Raises:
            LocalStackError: the captures do not appear.

        """
        until, deadline = datetime.now(UTC) + timedelta(seconds=1), time.monotonic() + PATIENCE_S
        while (captured := self._captured(slot, since, until)) < requests:
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"drift: got {captured} captured requests of {requests}; see the logs in the stack's folder"
                )
            time.sleep(_POLL_S)
        report = self._runs.run(self._model.name, slot, window_end=at, captured=(since, until))
        worst = max(report.features, key=lambda feature: feature.size)
        return DriftWindow(
            label=label,
            visits=requests,
            score=report.max_score,
            drifted_share=report.drifted_share,
            worst_feature=worst.name,
            alarm_state="",
        )

    def _captured(self, slot: Slot, since: datetime, until: datetime) -> int:
        batches = self._captures.read(self._endpoint, slot, start=since, end=until)
        return sum(len(batch.captures) for batch in batches)
