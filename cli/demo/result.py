"""The whole demo as one value: scenes with their promises, and what each found."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cli.demo.findings import Deployed, Drifted, Outage, Released, Served
from cli.demo.promises import Promise
from cli.demo.tally import RouteLatency, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene as it ended."""

    title: str
    seconds: float
    promises: tuple[Promise, ...] = ()

    @property
    def kept(self) -> bool:
        """Every promise was kept; a scene that promises nothing keeps that."""
        return all(promise.kept for promise in self.promises)

    @property
    def seen(self) -> str:
        """One line: what broke, else what the first two promises saw."""
        broken = [f"{promise.text}: {promise.seen}" for promise in self.promises if not promise.kept]
        return "; ".join(broken) if broken else "; ".join(promise.seen for promise in self.promises[:2])


@dataclass(slots=True, kw_only=True)
class DemoResult:
    """The story's findings, filled scene by scene; a scene that never came left None."""

    stage: str
    pace: str
    planned: tuple[str, ...]
    shortened: tuple[str, ...] = ()
    scenes: list[Scene] = field(default_factory=list)
    deployed: Deployed | None = None
    served: Served | None = None
    better: Released | None = None
    worse: Released | None = None
    outages: tuple[Outage, ...] = ()
    drift: Drifted | None = None
    total: Tally = field(default_factory=Tally)
    outcomes: Tally = field(default_factory=Tally)
    routes: dict[str, RouteLatency] = field(default_factory=dict)
    report: Path | None = None
    wall_s: float = 0.0
    page_url: str = ""
    kept_in: Path | None = None

    @property
    def as_promised(self) -> bool:
        """Every scene came and kept what it promises."""
        return tuple(scene.title for scene in self.scenes) == self.planned and all(scene.kept for scene in self.scenes)

    def document(self) -> dict[str, Any]:
        """Give the JSON document of `streamhub demo --json`."""
        return {
            "as_promised": self.as_promised,
            "pace": self.pace,
            "shortened": list(self.shortened),
            "stage": self.stage,
            "seconds": round(self.wall_s, 1),
            "scenes": [
                {**asdict(scene), "seconds": round(scene.seconds, 1), "kept": scene.kept} for scene in self.scenes
            ],
            "deployed": _plain(self.deployed),
            "served": _plain(self.served),
            "better": _plain(self.better),
            "worse": _plain(self.worse),
            "faults": [asdict(outage) for outage in self.outages],
            "drift": _plain(self.drift),
            "requests": asdict(self.total),
            "outcomes": asdict(self.outcomes),
            "routes": {route: asdict(latency) for route, latency in self.routes.items()},
            "machine": machine(),
            "report": str(self.report) if self.report is not None else "",
            "page_url": self.page_url,
        }


def machine() -> dict[str, object]:
    """The facts a latency must be read with."""
    return {
        "cpus": os.cpu_count() or 0,
        "python": platform.python_version(),
        "system": platform.system(),
        "load_1m": round(os.getloadavg()[0], 2),
    }


def _plain(found: Deployed | Served | Released | Drifted | None) -> dict[str, Any] | None:
    return asdict(found) if found is not None else None
