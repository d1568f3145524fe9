"""The report of a rehearsal: shares, the uplift with its bounds, the tail and drift, over the days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup
from matplotlib.axes import Axes

from cli.pages import BAD, GOOD, LINE, A, B, svg, write_page
from cli.rehearsal.scenario import SCENARIOS
from cli.rehearsal.score import Checkpoint, Hour, document_of
from serving.spec import ModelSpec

_CEILING = 0.15
"""Bounds of the first hours are wider than any plot."""


def write(end: Checkpoint, model: ModelSpec, *, to: Path) -> Path:
    """Write the report and give its path."""
    return write_page(
        to,
        package="cli.rehearsal",
        template="report.html.j2",
        document=document_of(end),
        truth=SCENARIOS[end.settings.scenario].text,
        policy=model.release,
        plots=[
            ("Who gets the traffic", _shares(end.hours)),
            ("Is it better?", _uplift(end.hours, model.release.min_uplift)),
            ("Is it slower?", _tail(end.hours, model.release.guardrails.p99_margin)),
            ("Do inputs drift?", _drift(end.hours, model.drift.alarm_size)),
        ],
    )


def _shares(hours: Sequence[Hour]) -> Markup:
    def draw(ax: Axes) -> None:
        days = [hour.day for hour in hours]
        ax.step(days, [hour.weight for hour in hours], color=B, where="post", label="weight of slot b in force")
        ax.step(days, [hour.share for hour in hours], color=A, where="post", ls="--", label="share in the record")
        ax.set_ylim(-0.03, 1.03)
        _finish(ax, "share of traffic")

    return svg(draw)


def _uplift(hours: Sequence[Hour], min_uplift: float) -> Markup:
    def draw(ax: Axes) -> None:
        for stage in dict.fromkeys(hour.share for hour in hours if hour.uplift is not None):
            mine = [hour for hour in hours if hour.share == stage and hour.uplift is not None]
            days = [hour.day for hour in mine]
            ax.plot(days, _values(mine, lambda hour: hour.uplift), color=B, lw=1)
            ax.fill_between(
                days,
                _values(mine, lambda hour: hour.uplift_lower),
                _values(mine, lambda hour: hour.uplift_upper),
                color=B,
                alpha=0.2,
                label=f"bounds at {stage:.0%} of traffic",
            )
        ax.axhline(0, color=LINE, lw=0.8)
        ax.axhline(min_uplift, color=GOOD, lw=1, ls="--", label=f"asked for: {min_uplift:+.0%}")
        ax.set_ylim(-_CEILING, _CEILING)
        _finish(ax, "relative uplift of the click rate")

    return svg(draw)


def _tail(hours: Sequence[Hour], margin: float) -> Markup:
    def draw(ax: Axes) -> None:
        measured = [hour for hour in hours if hour.p99_ms is not None and hour.control_p99_ms is not None]
        days, control = [hour.day for hour in measured], _values(measured, lambda hour: hour.control_p99_ms)
        ax.plot(days, _values(measured, lambda hour: hour.p99_ms), color=B, label="challenger's p99")
        ax.plot(days, control, color=A, label="production's p99")
        ax.plot(days, [value * (1 + margin) for value in control], color=BAD, lw=1, ls="--", label="allowed")
        ax.set_ylim(bottom=0)
        _finish(ax, "ms")

    return svg(draw)


def _drift(hours: Sequence[Hour], alarm_size: float) -> Markup:
    def draw(ax: Axes) -> None:
        measured = [hour for hour in hours if hour.drift_score is not None]
        days = [hour.day for hour in measured]
        ax.step(days, _values(measured, lambda hour: hour.drift_score), color=A, where="pre", label="largest size")
        alarmed = [hour.day for hour in hours if hour.drift_alarm == "ALARM"]
        ax.plot(alarmed, [alarm_size] * len(alarmed), ".", color=BAD, ms=4, label="in ALARM")
        ax.axhline(alarm_size, color=GOOD, lw=1, ls="--", label=f"alarm from {alarm_size:g}")
        ax.set_ylim(bottom=0)
        _finish(ax, "stability index less chance")

    return svg(draw)


def _values(hours: Sequence[Hour], read: Callable[[Hour], float | None]) -> list[float]:
    return [value for hour in hours if (value := read(hour)) is not None]


def _finish(ax: Axes, label: str) -> None:
    ax.set_xlabel("day")
    ax.set_ylabel(label)
    ax.legend(frameon=False, fontsize=7, labelcolor=LINE)
