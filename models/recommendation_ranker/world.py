"""A world whose truth is known: users, videos, and the probability that one clicks the other.

The ranker is trained in it, the demo's traffic comes from it, and tests ask it which version is really better.
Feature rows are what a feature pipeline would have measured: noisy and in raw units. What decides a click stays
inside (`click_probability`). Needs numpy only; the same seed gives the same world.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
RowArray = npt.NDArray[np.float32]
IndexArray = npt.NDArray[np.int64]

TASTES = 8
USER_FIELDS = (
    *(f"taste_{index}" for index in range(TASTES)),
    "activity",
    "tenure",
    "skip_rate",
    "like_rate",
    "session_length",
    "mobile_share",
    "evening_share",
    "novelty",
)
VIDEO_FIELDS = (
    *(f"topic_{index}" for index in range(TASTES)),
    "popularity",
    "freshness",
    "length",
    "completion",
    "like_ratio",
    "report_rate",
    "creator_reach",
    "quality",
)
CONTEXT_FIELDS = ("hour_sin", "hour_cos", "is_mobile", "is_weekend")
FEATURES = USER_FIELDS + VIDEO_FIELDS + CONTEXT_FIELDS
REQUEST_CANDIDATES = 50
WORLD_SEED = 7
"""Of the world that the committed versions were trained in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """When and where a request is made; `hour` is 0..23 of the user's day."""

    hour: int
    mobile: bool
    weekend: bool

    def row(self) -> RowArray:
        """Give the four context columns of the model input, shape (4,), in the order of `CONTEXT_FIELDS`."""
        angle = 2.0 * np.pi * self.hour / 24.0
        return np.array([np.sin(angle), np.cos(angle), self.mobile, self.weekend], dtype=np.float32)

    def document(self) -> dict[str, object]:
        """Give the `context` of a `/v1/rank` body."""
        return {"hour": self.hour, "device": "mobile" if self.mobile else "desktop", "weekend": self.weekend}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Users:
    """What users are like: each array has one entry a user."""

    taste: FloatArray
    activity: FloatArray
    tenure_days: FloatArray
    patience: FloatArray
    mobile: FloatArray
    evening: FloatArray
    novelty: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Videos:
    """What videos are like: each array has one entry a video."""

    topic: FloatArray
    popularity: FloatArray
    freshness: FloatArray
    minutes: FloatArray
    quality: FloatArray
    reach: FloatArray


@dataclass(frozen=True)
class World:
    """Users and videos of one seed.

    `user_rows` (users, 16) and `video_rows` (videos, 16) are float32, columns as `USER_FIELDS` and `VIDEO_FIELDS`.
    """

    seed: int
    user_count: int = 5_000
    video_count: int = 2_000
    users: tuple[str, ...] = field(init=False, repr=False)
    videos: tuple[str, ...] = field(init=False, repr=False)
    user_rows: RowArray = field(init=False, repr=False, compare=False)
    video_rows: RowArray = field(init=False, repr=False, compare=False)
    _users: _Users = field(init=False, repr=False, compare=False)
    _videos: _Videos = field(init=False, repr=False, compare=False)
    _user_share: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        users = _draw_users(rng, self.user_count)
        videos = _draw_videos(rng, self.video_count)
        share = np.cumsum(users.activity / users.activity.sum())
        for name, value in (
            ("users", tuple(f"user_{index:06d}" for index in range(self.user_count))),
            ("videos", tuple(f"video_{index:06d}" for index in range(self.video_count))),
            ("user_rows", _user_rows(rng, users)),
            ("video_rows", _video_rows(rng, videos)),
            ("_users", users),
            ("_videos", videos),
            ("_user_share", share),
        ):
            object.__setattr__(self, name, value)

    def click_probability(self, user_index: int, video_indices: IndexArray, context: Context) -> FloatArray:
        """Give the true probability that this user clicks each video if it is shown first, shape (videos,)."""
        users, videos = self._users, self._videos
        topic = videos.topic[video_indices]
        quality = videos.quality[video_indices]
        freshness = videos.freshness[video_indices]
        match = topic @ users.taste[user_index]
        evening = np.cos(2.0 * np.pi * (context.hour - 21) / 24.0)
        wanted_minutes = 4.0 + 7.0 * context.weekend + 4.0 * max(evening, 0.0) - 2.5 * context.mobile
        misfit = np.abs(np.log(videos.minutes[video_indices] / wanted_minutes))
        disappointment = np.maximum(videos.popularity[video_indices], 0.0) * np.maximum(-quality, 0.0)
        logit = (
            -1.75
            + 1.0 * np.tanh(1.1 * match)
            + 0.62 * np.tanh(0.9 * quality)
            + (0.1 + 0.95 * users.novelty[user_index]) * (freshness - 0.35)
            + 0.24 * videos.popularity[video_indices]
            + 0.35 * evening * topic[:, 0]
            - 0.30 * misfit
            - 0.35 * (1.0 - users.patience[user_index]) * disappointment
        )
        return np.asarray(1.0 / (1.0 + np.exp(-logit)), dtype=np.float64)

    def candidates(self, rng: np.random.Generator, n: int = REQUEST_CANDIDATES) -> IndexArray:
        """Draw `n` different videos as a retrieval step would: popular ones more often."""
        # the n largest of log-weight + Gumbel noise are a draw without replacement in proportion to the weights
        keys = 0.5 * self._videos.popularity + rng.gumbel(size=self.video_count)
        return np.argpartition(keys, -n)[-n:].astype(np.int64)

    def request(self, rng: np.random.Generator, n: int = REQUEST_CANDIDATES) -> tuple[int, IndexArray, Context]:
        """Draw one request: active users come more often, each at their hours and on their devices."""
        user = min(int(np.searchsorted(self._user_share, rng.random())), self.user_count - 1)
        in_evening = rng.random() < self._users.evening[user]
        hour = int(rng.integers(18, 24)) if in_evening else int(rng.integers(0, 24))
        mobile = bool(rng.random() < self._users.mobile[user])
        context = Context(hour=hour, mobile=mobile, weekend=bool(rng.random() < 2.0 / 7.0))
        return user, self.candidates(rng, n), context

    def features(self, user_index: int, video_indices: IndexArray, context: Context) -> RowArray:
        """Give the model input of one request, shape (videos, 36): user, video and context columns."""
        rows = np.empty((len(video_indices), len(FEATURES)), dtype=np.float32)
        rows[:, : len(USER_FIELDS)] = self.user_rows[user_index]
        rows[:, len(USER_FIELDS) : -len(CONTEXT_FIELDS)] = self.video_rows[video_indices]
        rows[:, -len(CONTEXT_FIELDS) :] = context.row()
        return rows


def _draw_users(rng: np.random.Generator, count: int) -> _Users:
    return _Users(
        taste=rng.normal(0.0, 1.0, (count, TASTES)),
        activity=rng.lognormal(1.0, 0.8, count),
        tenure_days=rng.gamma(1.5, 260.0, count),
        patience=rng.beta(2.0, 2.0, count),
        mobile=rng.beta(2.0, 1.2, count),
        evening=rng.beta(1.5, 2.5, count),
        novelty=rng.beta(1.4, 1.4, count),
    )


def _draw_videos(rng: np.random.Generator, count: int) -> _Videos:
    topic = rng.normal(0.0, 1.0, (count, TASTES))
    quality = rng.normal(0.0, 1.0, count)
    return _Videos(
        topic=topic / np.linalg.norm(topic, axis=1, keepdims=True),
        popularity=rng.normal(0.0, 1.0, count),  # how often it was shown says little about how good it is
        freshness=np.exp(-rng.exponential(1.6, count)),
        minutes=rng.lognormal(1.7, 0.7, count),
        quality=quality,
        reach=rng.normal(0.0, 1.0, count),
    )


def _user_rows(rng: np.random.Generator, users: _Users) -> RowArray:
    count = len(users.activity)

    def noise(scale: float) -> FloatArray:
        return rng.normal(0.0, scale, count)

    columns = [
        *(users.taste + rng.normal(0.0, 0.35, users.taste.shape)).T,
        users.activity,
        users.tenure_days,
        np.clip(0.65 - 0.45 * users.patience + noise(0.05), 0.0, 1.0),
        np.clip(0.02 + 0.10 * users.patience + noise(0.01), 0.0, 1.0),
        np.exp(np.log(6.0 + 1.5 * users.activity) + noise(0.25)),
        np.clip(users.mobile + noise(0.05), 0.0, 1.0),
        np.clip(users.evening + noise(0.05), 0.0, 1.0),
        np.clip(users.novelty + noise(0.08), 0.0, 1.0),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _video_rows(rng: np.random.Generator, videos: _Videos) -> RowArray:
    count = len(videos.quality)

    def noise(scale: float) -> FloatArray:
        return rng.normal(0.0, scale, count)

    columns = [
        *(videos.topic + rng.normal(0.0, 0.12, videos.topic.shape)).T,
        np.exp(7.0 + 1.3 * videos.popularity + noise(0.2)),
        videos.freshness,
        videos.minutes,
        1.0 / (1.0 + np.exp(-(0.2 + 0.8 * videos.quality - 0.3 * np.log(videos.minutes / 5.0) + noise(0.4)))),
        1.0 / (1.0 + np.exp(-(1.5 + 0.7 * videos.quality + noise(0.4)))),
        np.exp(-6.0 - 0.6 * videos.quality + noise(0.5)),
        np.exp(9.0 + 1.4 * videos.reach + 0.6 * videos.popularity),
        videos.quality + noise(0.35),
    ]
    return np.stack(columns, axis=1).astype(np.float32)
