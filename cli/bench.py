"""`streamhub bench`: what things cost, beside their peers in the same run."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import packaging as bench
from benchmarks import push as push_bench
from benchmarks.serving.environments import DEFAULT as ENVIRONMENTS
from cli.demo.result import machine
from cli.output import JsonFlag, emit, progress_console

app = typer.Typer(no_args_is_help=True, help="Benchmarks beside peers, in one run.")

_GB = 10**9
RESULTS = Path("benchmarks/results")
PARTS = Path("build/bench")


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


@app.command()
def push(
    *,
    size_gb: Annotated[list[float] | None, typer.Option(min=0.001, max=5, help="Sizes; repeatable.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each way and size, in turns.")] = 5,
    folder: Annotated[Path | None, typer.Option(help="Where the archive goes: the largest size.")] = None,
    aws: Annotated[Path | None, typer.Option(help="An AWS CLI; else one is installed from PyPI, once.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Push into the registry beside `aws s3 cp` to the same local S3: MB/s, ratio and peak memory."""
    sizes = [round(size * _GB) for size in size_gb or [0.2]]
    told = progress_console.print
    peer = aws or push_bench.aws_cli(ENVIRONMENTS.expanduser(), told=told)
    reports = push_bench.measure(sizes, repeats=repeats, aws=peer, folder=folder, told=told)
    document = {"machine": machine(), "push": [asdict(report) for report in reports]}
    emit(document, as_json=as_json, lines=[_push_line(report) for report in reports])


@app.command()
def serving(
    *,
    peers: Annotated[str, typer.Option(help="Some servers, with commas between; all by default.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Few servers, few rounds: about two minutes.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Rounds over all servers.")] = None,
    environments: Annotated[Path, typer.Option(help="Where peers are installed, once.")] = ENVIRONMENTS,
    out: Annotated[Path | None, typer.Option(help="Where the files go; a part of a run goes to build/bench.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the model server beside its peers: CPU a request, latency, highest rate, overload; installs the peers."""
    from benchmarks.serving import command  # noqa: PLC0415 - ONNX Runtime loads only for this command

    asked = [name for name in peers.split(",") if name]
    told = partial(progress_console.print, markup=False, highlight=False)
    if unknown := command.unknown_peers(asked):
        raise typer.BadParameter(unknown, param_hint="--peers")
    out = out or (PARTS if asked or quick else RESULTS)
    document, lines = command.run(
        asked, quick=quick, repeats=repeats, cache=environments.expanduser(), out=out, told=told
    )
    emit(document, as_json=as_json, lines=lines)


@app.command()
def local(
    *,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all ways.")] = 9,
    seconds: Annotated[float, typer.Option(min=0.5, help="Of each run of a round.")] = 3.0,
    environments: Annotated[Path, typer.Option(help="Where the load client is compiled, once.")] = ENVIRONMENTS,
    out: Annotated[Path | None, typer.Option(help="Where the files go; build/bench by default.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure what InvokeEndpoint through the local stack adds to the model server alone, and what botocore costs."""
    from benchmarks.local_stack import command  # noqa: PLC0415 - as above

    told = partial(progress_console.print, markup=False, highlight=False)
    document, lines = command.run(
        repeats=repeats, seconds=seconds, cache=environments.expanduser(), out=out or PARTS, told=told
    )
    emit(document, as_json=as_json, lines=lines)


def _line(report: bench.SizeReport) -> str:
    tar = f"; tar czf {report.tar_czf_mb_s:g} MB/s" if report.tar_czf_mb_s is not None else ""
    return (
        f"{report.size_bytes / _GB:g} GB: {report.ours_mb_s:g} MB/s, compressor alone {report.compressor_mb_s:g} MB/s, "
        f"ratio {report.ratio:g}; peak {report.ours_peak_rss_bytes >> 20} MiB "
        f"(alone {report.compressor_peak_rss_bytes >> 20} MiB){tar}"
    )


def _push_line(report: push_bench.PushReport) -> str:
    return (
        f"{report.size_bytes / _GB:g} GB: {report.ours_mb_s:g} MB/s, aws s3 cp {report.aws_mb_s:g} MB/s, ratio "
        f"{report.ratio:g}; peak {report.ours_peak_rss_bytes >> 20} MiB (aws {report.aws_peak_rss_bytes >> 20} MiB)"
    )
