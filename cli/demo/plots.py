"""The report's plots, one function each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from cli.demo.findings import Drifted, Look, Outage, Released
from cli.demo.result import Scene
from cli.demo.tally import RouteLatency, Tally
from cli.pages import BAD, GOOD, LINE, A, B, svg

_ROW = 0.34
_EDGE = 1.1
_SHOWN_UPLIFT = (-1.0, 1.5)


def split(better: Released, worse: Released | None) -> Markup:
    """Draw which version answered the visits of each look, and those sent after each release."""
    rows = [row for release in (better, worse) if release is not None for row in _answered(release)]
    names, tallies = [name for name, _ in rows], [tally for _, tally in rows]

    def draw(ax: Axes) -> None:
        for version, colour in ((better.production, A), (better.challenger, B)):
            left = [tally.share(better.production) if version == better.challenger else 0.0 for tally in tallies]
            ax.barh(names, [tally.share(version) for tally in tallies], left=left, color=colour, label=version)
        for row, tally in enumerate(tallies):
            ax.text(0.01, row, _shares(tally), va="center", color="white", fontsize=7)
        ax.set_xlim(0, 1)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel("share of the ranker's answers")
        ax.invert_yaxis()
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, labelcolor=LINE)

    return svg(draw, height=_EDGE + _ROW * len(rows))


def uplift(release: Released, *, min_uplift: float) -> Markup:
    """Draw the estimate and its always-valid bounds at each look, stage by stage, beside the truth."""

    def draw(ax: Axes) -> None:
        for stage in sorted({look.stage for look in release.looks}):
            _bounds(ax, [look for look in release.looks if look.stage == stage], colour=(A, B)[stage % 2])
        ax.axhline(0, color=LINE, lw=0.8)
        ax.axhline(release.truth, color=LINE, lw=1, ls=":", label=f"truth of the world: {release.truth:+.0%}")
        ax.axhline(min_uplift, color=GOOD, lw=1, ls="--", label=f"asked for: {min_uplift:+.0%}")
        ax.set_ylim(*_SHOWN_UPLIFT)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel("impressions in the stage")
        ax.set_ylabel(f"uplift of {release.challenger} over {release.production}")
        ax.legend(frameon=False, fontsize=7, labelcolor=LINE, ncols=2)

    return svg(draw)


def faults(outages: Sequence[Outage]) -> Markup:
    """Draw what visitors got while each fault lasted, and after it."""
    rows = [(f"{outage.kind}, {when}", tally) for outage in outages for when, tally in _moments(outage)]
    names = [name for name, _ in rows]

    def draw(ax: Axes) -> None:
        left = [0] * len(rows)
        for label, colour, counts in (
            ("by the model", A, [tally.answered - tally.degraded for _, tally in rows]),
            ("degraded", B, [tally.degraded for _, tally in rows]),
            ("not answered", BAD, [tally.sent - tally.answered for _, tally in rows]),
        ):
            ax.barh(names, counts, left=left, color=colour, label=label)
            left = [before + more for before, more in zip(left, counts, strict=True)]
        ax.set_xlabel("requests")
        ax.invert_yaxis()
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, labelcolor=LINE)

    return svg(draw, height=_EDGE + _ROW * len(rows))


def latency(routes: Mapping[str, RouteLatency], budgets_ms: Mapping[str, float]) -> Markup:
    """Draw p50 to p99 of each route as its clients saw it, on a logarithmic axis."""

    def draw(ax: Axes) -> None:
        for row, (route, seen) in enumerate(routes.items()):
            ax.plot([seen.p50, seen.p99], [row, row], color=A, lw=4, solid_capstyle="round")
            ax.plot([seen.p90], [row], "|", color="white", ms=9)
            if route in budgets_ms:
                ax.plot([budgets_ms[route]], [row], "d", color=B, ms=6)
        ax.plot([], [], "d", color=B, ms=6, label="endpoint's p99 budget")
        ax.set_xscale("log")
        ax.set_yticks(range(len(routes)), list(routes))
        ax.invert_yaxis()
        ax.set_xlabel("ms as the client saw it, p50 to p99 (mark: p90)")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=7, labelcolor=LINE)

    return svg(draw)


def drift(found: Drifted) -> Markup:
    """Draw the largest score of each window, and the alarm's state after it."""

    def draw(ax: Axes) -> None:
        labels = [window.label for window in found.windows]
        colours = [B if window.score > found.alarm_size else A for window in found.windows]
        ax.bar(labels, [window.score for window in found.windows], color=colours, width=0.5)
        ax.axhline(found.alarm_size, color=GOOD, lw=1, ls="--", label=f"alarm above {found.alarm_size:g}")
        for x, window in enumerate(found.windows):
            text = f"{window.worst_feature} {window.score:.2f}\n{window.alarm_state}"
            ax.text(x, window.score, text, ha="center", va="bottom", color=LINE, fontsize=8)
        ax.set_ylabel("largest debiased PSI")
        ax.margins(y=0.3)
        ax.legend(frameon=False, fontsize=7, labelcolor=LINE, loc="upper left")

    return svg(draw)


def timeline(scenes: Sequence[Scene]) -> Markup:
    """Draw when each scene ran."""

    def draw(ax: Axes) -> None:
        starts = [sum(scene.seconds for scene in scenes[:number]) for number in range(len(scenes))]
        colours = [A if scene.kept else BAD for scene in scenes]
        ax.barh([scene.title for scene in scenes], [scene.seconds for scene in scenes], left=starts, color=colours)
        for row, (start, scene) in enumerate(zip(starts, scenes, strict=True)):
            ax.text(start + scene.seconds, row, f" {scene.seconds:.1f} s", va="center", color=LINE, fontsize=7)
        ax.margins(x=0.12)
        ax.set_xlabel("seconds since the first scene began")
        ax.invert_yaxis()

    return svg(draw, height=_EDGE + _ROW * len(scenes))


def _answered(release: Released) -> list[tuple[str, Tally]]:
    versions = f"{release.production} to {release.challenger}"
    looks = [(f"{versions}, look {number}", look.visits) for number, look in enumerate(release.looks, 1)]
    return [*looks, (f"{versions}, after", release.after)]


def _shares(tally: Tally) -> str:
    return ", ".join(f"{version}: {tally.share(version):.1%}" for version in tally.by_version)


def _moments(outage: Outage) -> tuple[tuple[str, Tally], ...]:
    return ("during", outage.during), ("after", outage.after)


def _bounds(ax: Axes, looks: Sequence[Look], *, colour: str) -> None:
    seen = [
        (look.impressions, look.estimate, look.lower, look.upper)
        for look in looks
        if look.estimate is not None and look.lower is not None and look.upper is not None
    ]
    if not seen:
        return
    xs, estimates, lowers, uppers = (list(values) for values in zip(*seen, strict=True))
    around = [[e - low for e, low in zip(estimates, lowers, strict=True)]]
    around.append([high - e for e, high in zip(estimates, uppers, strict=True)])
    ax.errorbar(xs, estimates, yerr=around, fmt="o-", color=colour, ms=4, capsize=3, lw=1, label=_stage(looks[0]))


def _stage(look: Look) -> str:
    return f"{look.state}, {look.share:.0%} of traffic"
