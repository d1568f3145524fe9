"""What a push into the registry costs beside `aws s3 cp` of the same archive to the same local S3, in turns.

    .venv/bin/streamhub bench push --json

Each run is a whole command, start of Python included, against an S3 of its own that is empty. *ours* is
`streamhub registry push`: SHA-256 of every part and of the whole, claims, manifest, version. *aws* is `aws s3 cp` of
the AWS CLI with its defaults (parts of 8 MiB, ten at a time, a CRC). The S3 is one process and has a core's limit, so
rates say little about S3 itself; the ratio, the CPU seconds and the memory are what is compared.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import urllib3

from benchmarks.local_s3 import REGION, local_s3
from benchmarks.measured import Cost, run
from benchmarks.packaging import MB, Told
from benchmarks.serving.environments import Tool, install
from serving.errors import BenchmarkError
from serving.spec import codec
from serving.spec.manifest import PackageManifest

AWS_CLI = Tool(name="awscli", requirements=("awscli==1.46.3",))
"""Version 1; version 2 is no package of PyPI."""

_BUCKET = "registry"
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """All runs over one size; rates in MB/s of the archive, medians; `ratio` above 1: ours took less time.

    `cpu_ratio` likewise of CPU seconds; peaks are the most of any run.
    """

    size_bytes: int
    repeats: int
    ours_mb_s: float
    aws_mb_s: float
    ratio: float
    cpu_ratio: float
    ours_peak_rss_bytes: int
    aws_peak_rss_bytes: int


def measure(
    sizes_bytes: Sequence[int], *, repeats: int, aws: Path, folder: Path | None, told: Told
) -> list[PushReport]:
    """Measure each size; `folder` needs the largest free, and the S3's process as much memory.

    Raises:
        BenchmarkError: the disk is too full, or a command failed or stored something else.

    """
    with tempfile.TemporaryDirectory(prefix="streamhub-bench-", dir=folder) as temporary:
        work = Path(temporary)
        wanted = max(sizes_bytes)
        if (free := shutil.disk_usage(work).free) < wanted:
            raise BenchmarkError(f"{work}: got {free} bytes free; allowed {wanted}; name a folder with --folder")
        return [_measure(size, work, repeats=repeats, aws=aws, told=told) for size in sizes_bytes]


def aws_cli(folder: Path, *, told: Told) -> Path:
    """Give the AWS CLI of an environment of its own, made at the first call: it pins its own botocore.

    Raises:
        BenchmarkError: it cannot be installed.

    """
    return install(folder, AWS_CLI, told=told).with_name("aws")


def _measure(size: int, work: Path, *, repeats: int, aws: Path, told: Told) -> PushReport:
    archive = write_package(work, size)
    commands = {
        "ours": [
            *(sys.executable, "-c", "from cli.main import main; main()", "registry", "push", str(archive)),
            *("--bucket", _BUCKET, "--actor", "bench"),
        ],
        "aws": [str(aws), "s3", "cp", "--only-show-errors", str(archive), f"s3://{_BUCKET}/copy.tar.gz"],
    }
    runs: Mapping[str, list[Cost]] = {way: [] for way in commands}
    for turn in range(repeats):
        for way in sorted(commands, reverse=bool(turn % 2)):  # in turns, so that a noisy minute falls on both
            runs[way].append(_push(commands[way], size, work))
            told(f"{size // MB} MB, turn {turn + 1} of {repeats}: {way} {runs[way][-1].seconds:.2f} s")
    return report(size, runs["ours"], runs["aws"])


def report(size: int, ours: Sequence[Cost], aws: Sequence[Cost]) -> PushReport:
    """Sum up runs that were made in turns: the nth of one beside the nth of the other."""
    turns = list(zip(ours, aws, strict=True))
    return PushReport(
        size_bytes=size,
        repeats=len(turns),
        ours_mb_s=round(size / MB / statistics.median(each.seconds for each in ours), 1),
        aws_mb_s=round(size / MB / statistics.median(each.seconds for each in aws), 1),
        ratio=round(statistics.median(peer.seconds / own.seconds for own, peer in turns), 3),
        cpu_ratio=round(statistics.median(peer.cpu_s / own.cpu_s for own, peer in turns), 3),
        ours_peak_rss_bytes=max(each.peak_rss_bytes for each in ours),
        aws_peak_rss_bytes=max(each.peak_rss_bytes for each in aws),
    )


def write_package(folder: Path, size: int) -> Path:
    """Write `size` seeded bytes that shrink no more, as an archive's do, and a manifest that names them."""
    archive, rng, digest = folder / "bench-1.0.0.model.tar.gz", np.random.default_rng(7), hashlib.sha256()
    with archive.open("wb") as file:
        for start in range(0, size, _BLOCK_BYTES):
            block = rng.bytes(min(_BLOCK_BYTES, size - start))
            digest.update(block)
            file.write(block)
    manifest = PackageManifest(
        name="bench",
        version="1.0.0",
        archive_sha256=digest.hexdigest(),
        size_bytes=size,
        files=(),
        spec_sha256="0" * 64,
        runtime="triton",
        image="none:0",
        licence="Apache-2.0",
        inputs=(),
        outputs=(),
        labels=(),
        thresholds={},
        metrics={},
        training_commit="",
        data_sha256="",
        baseline={},
        toolchain={},
    )
    (folder / "bench-1.0.0.manifest.json").write_bytes(codec.to_json(manifest))
    return archive


def _push(command: Sequence[str], size: int, work: Path) -> Cost:
    with local_s3(work) as url, urllib3.PoolManager() as http:
        if (status := http.request("PUT", f"{url}/{_BUCKET}").status) != HTTPStatus.OK:
            raise BenchmarkError(f"{url}: got {status} for a new bucket; allowed 200; run make setup")
        cost = run(command, _environment(url))
        listing = ET.fromstring(http.request("GET", f"{url}/{_BUCKET}?list-type=2").data)  # noqa: S314 - our own server
        sizes = [int(node.text or 0) for node in listing.iter() if node.tag.endswith("Size")]
    if size not in sizes:
        raise BenchmarkError(f"{command[0]}: got objects of {sizes} bytes; allowed one of {size}; the run is void")
    return cost


def _environment(url: str) -> dict[str, str]:
    """Whoever runs this has settings for AWS: none of them may reach the commands."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
