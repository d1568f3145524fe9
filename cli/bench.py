"""`streamhub bench`: what things cost, beside their peers in the same run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import packaging as bench
from cli.demo.result import machine
from cli.output import JsonFlag, emit, progress_console

app = typer.Typer(no_args_is_help=True, help="Benchmarks beside peers, in one run.")
app.callback()(lambda: None)  # keeps it a group while it has one command

_GB = 10**9


@app.command()
def packaging(
    *,
    size_gb: Annotated[list[float] | None, typer.Option(min=0.001, max=20, help="Sizes; repeatable.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each way and size, in turns.")] = 5,
    folder: Annotated[Path | None, typer.Option(help="Where the files go: three times the largest size.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write archives beside the compressor alone and `tar czf`: MB/s, ratio and peak memory."""
    sizes = [round(size * _GB) for size in size_gb or [0.4]]
    reports = bench.run(sizes, repeats=repeats, folder=folder, told=progress_console.print)
    document = {"machine": machine(), "packaging": [asdict(report) for report in reports]}
    emit(document, as_json=as_json, lines=[_line(report) for report in reports])


def _line(report: bench.SizeReport) -> str:
    tar = f"; tar czf {report.tar_czf_mb_s:g} MB/s" if report.tar_czf_mb_s is not None else ""
    return (
        f"{report.size_bytes / _GB:g} GB: {report.ours_mb_s:g} MB/s, compressor alone {report.compressor_mb_s:g} MB/s, "
        f"ratio {report.ratio:g}; peak {report.ours_peak_rss_bytes >> 20} MiB "
        f"(alone {report.compressor_peak_rss_bytes >> 20} MiB){tar}"
    )
