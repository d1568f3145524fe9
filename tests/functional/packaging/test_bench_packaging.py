"""`streamhub bench packaging` compares like with like, in one JSON document."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
from pathlib import Path

import orjson

from benchmarks import packaging

ROOT = Path(__file__).parents[3]


def test_both_ways_pack_the_same_bytes(tmp_path: Path) -> None:
    data = tmp_path / "model.bin"
    packaging.write_weights(data, 9_000_001)
    for way, pack in packaging.WAYS.items():
        pack(data, tmp_path / way)
    assert gzip.decompress((tmp_path / "compressor").read_bytes()) == data.read_bytes()
    with tarfile.open(tmp_path / "ours") as archive:
        member = archive.extractfile("model/1/model.bin")
        assert member is not None
        assert member.read() == data.read_bytes()


def test_made_up_weights_are_the_same_each_time_and_shrink_as_weights_do(tmp_path: Path) -> None:
    for name in ("one", "other"):
        packaging.write_weights(tmp_path / name, 20_000_000)
    content = (tmp_path / "one").read_bytes()
    assert content == (tmp_path / "other").read_bytes()
    assert len(content) == 20_000_000
    assert 0.3 < len(gzip.compress(content, 6)) / len(content) < 0.95


def test_the_command_prints_one_document_with_a_ratio_and_peaks(tmp_path: Path) -> None:
    words = ["bench", "packaging", "--json", "--size-gb", "0.002", "--repeats", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", *words],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    document = orjson.loads(done.stdout)
    (report,) = document["packaging"]
    assert report["size_bytes"] == 2_000_000
    assert report["ratio"] > 0
    assert report["ours_peak_rss_bytes"] > 1 << 20
    assert document["machine"]["cpus"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = ["bench", "packaging", "--size-gb", "20", "--folder", str(tmp_path)]
    full = "import shutil; shutil.disk_usage = lambda _: shutil._ntuple_diskusage(1, 1, 0)"
    code = f"{full}; from cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "got 0 bytes free; allowed 60000000000" in done.stderr
