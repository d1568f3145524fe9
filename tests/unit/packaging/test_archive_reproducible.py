"""Two machines' worth of difference leave no trace in an archive; GNU tar reads what went in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.protocol.archive_names import Distinct, name_problems

TREE_FILES = 6
NOBODY = 65_534
HAS_TWO_CORES = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1

PACK = """
import os, sys
from pathlib import Path
settings = dict(argument.split("=", 1) for argument in sys.argv[3:])
os.umask(int(settings["umask"], 8))
if "core" in settings:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from model_packaging.archive import Member, write_archive
if "uid" in settings:
    os.setgid(int(settings["uid"]))
    os.setuid(int(settings["uid"]))
root, out = Path(sys.argv[1]), Path(sys.argv[2])
files = [path for path in root.rglob("*") if path.is_file()]
if "reverse" in settings:
    files.reverse()
print(write_archive([Member(path.relative_to(root).as_posix(), path) for path in files], out).sha256)
"""

parts = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="/\\"), min_size=1, max_size=20
)
names = st.lists(parts.filter(lambda part: part not in {".", ".."}), min_size=1, max_size=3).map("/".join)
contents = st.one_of(
    st.binary(max_size=2000),
    # larger than a piece of the compressor, and not all zeros
    st.integers(0, 255).map(
        lambda byte: (bytes(range(256)) * 20_000 + bytes([byte])) if byte % 4 == 0 else bytes([byte])
    ),
)


def usable(tree: dict[str, bytes]) -> bool:
    """Whether a file system that tells names apart can hold the tree, and the writer takes it."""
    distinct = Distinct()
    clear = all(not [*name_problems(name)] and distinct.other(name) is None for name in tree)
    return clear and not any(other.startswith(f"{name}/") for name in tree for other in tree)


trees = st.dictionaries(names, contents, min_size=1, max_size=TREE_FILES).filter(usable)


def lay_out(tree: dict[str, bytes], root: Path, *, mode: int, time_s: int, backwards: bool) -> None:
    for name in sorted(tree, reverse=backwards):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tree[name])
        path.chmod(mode)
        os.utime(path, (time_s, time_s))


def start(root: Path, out: Path, *arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    source = Path(__file__).parents[3]
    return subprocess.Popen(
        [sys.executable, "-c", PACK, root, out, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(source), **environment},
    )


@pytest.mark.skipif(shutil.which("tar") is None, reason="GNU tar is the oracle")
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(tree=trees)
def test_two_machines_worth_of_difference_give_the_same_bytes_which_gnu_tar_reads(tree: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        base.chmod(0o755)
        one, two = base / "one", base / "some where" / "else"
        lay_out(tree, one, mode=0o644, time_s=0, backwards=False)
        lay_out(tree, two, mode=0o755, time_s=1_900_000_000, backwards=True)
        outs = base / "a", base / "b"
        for out in outs:
            out.mkdir()
            out.chmod(0o777)
        other_user = [f"uid={NOBODY}"] if os.geteuid() == 0 else []
        first = start(one, outs[0] / "x.tar.gz", "umask=022", cwd=base, LC_ALL="C", TZ="UTC", PYTHONHASHSEED="1")
        second = start(
            two,
            outs[1] / "other name.tar.gz",
            "umask=077",
            "reverse=1",
            *(["core=1"] if HAS_TWO_CORES else []),
            *other_user,
            cwd=outs[1],
            LC_ALL="C.UTF-8",
            TZ="Asia/Kathmandu",
            PYTHONHASHSEED="2",
        )
        digests = [process.communicate(timeout=120)[0] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0)
        assert digests[0] == digests[1]
        written = [next(out.iterdir()).read_bytes() for out in outs]
        assert written[0] == written[1]
        (base / "back").mkdir()
        subprocess.run(["tar", "-xzf", outs[0] / "x.tar.gz", "-C", base / "back"], check=True)
        back = {
            p.relative_to(base / "back").as_posix(): p.read_bytes() for p in (base / "back").rglob("*") if p.is_file()
        }
        assert back == tree
