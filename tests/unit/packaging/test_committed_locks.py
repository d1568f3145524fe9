from __future__ import annotations

from pathlib import Path

import pytest

from model_packaging.build import package, read_lock
from serving.spec.images import pinned_image
from serving.spec.load import load_model
from serving.spec.manifest import LockedVersion

MODELS = Path(__file__).parents[3] / "models"
COMMITTED = sorted(path.parent.name for path in MODELS.glob("*/weights"))


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_lock_equals_a_fresh_package_of_the_committed_model(
    root: Path, tmp_path: Path, name: str
) -> None:
    spec = load_model(root, name)
    fresh = {}
    for version in spec.versions:
        made = package(spec, version, model_dir=MODELS / name, out_dir=tmp_path, image=pinned_image(spec))
        fresh[version] = LockedVersion(sha256=made.archive_sha256, size_bytes=made.size_bytes)
    assert read_lock(MODELS / name) == fresh, f"run: streamhub package {name} --lock"
