"""`streamhub bench push` compares whole commands over the same bytes, and is void when one stored something else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from benchmarks import push
from benchmarks.measured import Cost, peak_rss_bytes, run
from model_packaging.manifest_file import manifest_path, read_manifest
from serving.errors import BenchmarkError

ROOT = Path(__file__).parents[3]
MIB = 1 << 20

# what `aws s3 cp --only-show-errors FILE s3://BUCKET/KEY` does, by the boto3 of this environment
AWS = """\
#!{python}
import os, sys, boto3
_, s3, cp, _, source, target = sys.argv
bucket, _, key = target.removeprefix("s3://").partition("/")
boto3.client("s3").upload_file(source, bucket, key)
"""


@pytest.fixture(name="aws")
def aws_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "aws"
    path.write_text(AWS.format(python=sys.executable))
    path.chmod(0o755)
    return path


def bench(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "bench", "push", *words],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "AWS_PROFILE": "nobody", "AWS_ENDPOINT_URL": "http://192.0.2.1"},
    )


def test_the_command_prints_one_document_with_ratios_and_peaks_and_leaves_nothing(aws: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    done = bench("--json", "--size-gb", "0.02", "--repeats", "1", "--aws", str(aws), "--folder", str(work))
    assert done.returncode == 0, done.stderr.decode()
    document = orjson.loads(done.stdout)
    (report,) = document["push"]
    assert report["size_bytes"] == 20_000_000
    assert report["ratio"] > 0
    assert min(report["ours_peak_rss_bytes"], report["aws_peak_rss_bytes"]) > MIB
    assert document["machine"]["cpus"] > 0
    assert list(work.iterdir()) == []


def test_a_command_that_stored_nothing_makes_the_run_void(tmp_path: Path) -> None:
    done = bench("--size-gb", "0.001", "--repeats", "1", "--aws", "/bin/true", "--folder", str(tmp_path))
    assert done.returncode == 1
    assert b"/bin/true: got objects of [] bytes; allowed one of 1000000; the run is void" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_ratio_is_the_median_of_turns_and_above_one_where_ours_took_less() -> None:
    ours = [Cost(seconds=2, cpu_s=1, peak_rss_bytes=10), Cost(seconds=4, cpu_s=2, peak_rss_bytes=30)] * 2
    aws = [Cost(seconds=3, cpu_s=1, peak_rss_bytes=50), Cost(seconds=10, cpu_s=1, peak_rss_bytes=40)] * 2
    report = push.report(300_000_000, ours, aws)
    assert (report.ratio, report.cpu_ratio) == (2.0, 0.75)
    assert (report.ours_mb_s, report.aws_mb_s) == (100.0, 46.2)
    assert (report.ours_peak_rss_bytes, report.aws_peak_rss_bytes) == (30, 50)


def test_the_package_is_one_that_its_manifest_names_and_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [push.write_package(folder, 17 * MIB + 1) for folder in (tmp_path, tmp_path / "other")]
    content = paths[0].read_bytes()
    assert content == paths[1].read_bytes()
    manifest = read_manifest(manifest_path(paths[0]))
    assert (manifest.size_bytes, manifest.archive_sha256) == (17 * MIB + 1, hashlib.sha256(content).hexdigest())


def test_a_commands_peak_is_its_own_and_not_that_of_who_started_it() -> None:
    held = bytearray(300 * MIB)
    held[:: 4 << 10] = b"x" * len(held[:: 4 << 10])  # pages count once they are written
    assert peak_rss_bytes() > 300 * MIB
    small = run([sys.executable, "-c", "pass"], os.environ)
    large = run([sys.executable, "-c", "b'x' * (200 << 20)"], os.environ)
    assert small.peak_rss_bytes < 100 * MIB < 200 * MIB < large.peak_rss_bytes < 300 * MIB
    del held


def test_a_command_that_fails_says_its_last_words() -> None:
    with pytest.raises(BenchmarkError, match=r"got exit 3 \(no bucket\)"):
        run([sys.executable, "-c", "import sys; print('no bucket', file=sys.stderr); sys.exit(3)"], os.environ)


def test_pushing_loads_no_onnx() -> None:
    code = "import sys, cli.registry.versions, serving.aws.registry; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
