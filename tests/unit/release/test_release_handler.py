"""The scheduled tick."""

from __future__ import annotations

import pytest

from lambdas.release import handler
from lambdas.release.outcome import Step
from serving.errors import ReleaseError


class Ticks:
    def __init__(self, error: Exception) -> None:
        self.asked: list[str] = []
        self.error = error

    def tick(self, model: str) -> Step | None:
        self.asked.append(model)
        if model == "moderator":
            raise self.error
        return None


@pytest.mark.parametrize("error", [ReleaseError("table: got no answer"), ValueError("table: got no answer")])
def test_a_model_that_fails_keeps_no_other_from_its_tick(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    ticks = Ticks(error)
    monkeypatch.setattr(handler, "_wired", lambda: (("moderator", "ranker"), ticks))
    with pytest.raises(ReleaseError, match=r"moderator: .*table: got no answer"):
        handler.handler({}, None)
    assert ticks.asked == ["moderator", "ranker"]


def test_models_without_a_release_are_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "_wired", lambda: (("ranker",), Ticks(ReleaseError("-"))))
    assert handler.handler({}, None) == {"steps": []}
