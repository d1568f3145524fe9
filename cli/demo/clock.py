"""A clock that can be moved on: the demo has no week to wait for the release's whole days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class DemoClock:
    """UTC now, plus what it was moved on by; it never goes back."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """Give the time of the story."""
        return datetime.now(UTC) + self._ahead

    def move_on(self, by: timedelta) -> None:
        """Let time pass.

        Raises:
            ValueError: a negative time.

        """
        if by < timedelta():
            raise ValueError(f"clock: got {by}; allowed 0 or more")
        self._ahead += by
