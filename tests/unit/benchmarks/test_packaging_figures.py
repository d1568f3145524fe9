"""The page and the plot on packaging show what the committed results hold, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks import packaging_plot

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks/results"
PAGE = (ROOT / "docs/packaging.md").read_text(encoding="utf-8")
MIB = 1 << 20

PACKAGING: dict[str, Any] = {
    "size_bytes": 10**9,
    "ours_mb_s": 90.0,
    "compressor_mb_s": 100.0,
    "tar_czf_mb_s": 7.0,
    "ours_peak_rss_bytes": 80 * MIB,
    "compressor_peak_rss_bytes": 70 * MIB,
}
PUSH: dict[str, Any] = {
    "size_bytes": 2 * 10**8,
    "ours_mb_s": 60.0,
    "aws_mb_s": 50.0,
    "ours_peak_rss_bytes": 120 * MIB,
    "aws_peak_rss_bytes": 90 * MIB,
}


def results(name: str) -> dict[str, Any]:
    return dict(orjson.loads((RESULTS / f"{name}.json").read_bytes()))


def test_every_command_has_its_bar_of_its_own_figure() -> None:
    drawn = {
        group: {bar.label: bar.value for bar in bars}
        for group, bars in packaging_plot.rates([PACKAGING, PACKAGING | {"tar_czf_mb_s": None}], [PUSH]).items()
    }
    assert drawn == {
        "package, 1 GB": {"package": 90.0, "compressor alone": 100.0},
        "push, 0.2 GB": {"registry push": 60.0, "aws s3 cp": 50.0},
    }
    assert packaging_plot.rates([PACKAGING], [])["package, 1 GB"][-1].value == 7.0
    peaks = packaging_plot.peaks([PACKAGING], [PUSH])
    assert [bar.value for bars in peaks.values() for bar in bars] == [80, 70, 120, 90]


@pytest.mark.parametrize("report", results("packaging")["packaging"], ids=lambda report: str(report["size_bytes"]))
def test_the_page_has_the_committed_figures_of_packaging(report: dict[str, Any]) -> None:
    tar = "" if report["tar_czf_mb_s"] is None else f"{report['tar_czf_mb_s']:.0f} MB/s"
    row = (
        f"| {report['size_bytes'] / 1e9:g} GB | {report['ours_mb_s']:.0f} MB/s | "
        f"{report['compressor_mb_s']:.0f} MB/s | {report['ratio']:.2f} | {report['cpu_ratio']:.2f} | "
        f"{report['ours_peak_rss_bytes'] / MIB:.0f} MiB | {report['compressor_peak_rss_bytes'] / MIB:.0f} MiB | {tar} |"
    )
    assert row.replace("|  |", "| |") in PAGE


@pytest.mark.parametrize("report", results("push")["push"], ids=lambda report: str(report["size_bytes"]))
def test_the_page_has_the_committed_figures_of_pushing(report: dict[str, Any]) -> None:
    row = (
        f"| {report['size_bytes'] / 1e9:g} GB | {report['ours_mb_s']:.0f} MB/s | {report['aws_mb_s']:.0f} MB/s | "
        f"{report['ratio']:.2f} | {report['cpu_ratio']:.2f} | {report['ours_peak_rss_bytes'] / MIB:.0f} MiB | "
        f"{report['aws_peak_rss_bytes'] / MIB:.0f} MiB |"
    )
    assert row in PAGE


def test_the_committed_plot_is_that_of_the_committed_results(tmp_path: Path) -> None:
    for name in ("packaging.json", "push.json"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    packaging_plot.main(tmp_path)
    assert (tmp_path / "packaging.svg").read_bytes() == (RESULTS / "packaging.svg").read_bytes()
