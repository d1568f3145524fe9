"""What the registry of the local stack is filled with."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from local.publish import package_all
from model_packaging.build import package
from model_packaging.verify import verify
from serving.spec.load import load_project
from serving.spec.manifest import LockedVersion
from serving.spec.runtime import VllmRuntime


def test_a_model_of_many_files_is_published_as_its_folder(root: Path, tmp_path: Path) -> None:
    project = load_project(root)
    own = project.models["support_rag"]
    assert isinstance(own.runtime, VllmRuntime)
    spec = replace(own, runtime=replace(own.runtime, layout="prefix"))
    made = package(spec, "1.0.0", model_dir=root / "models" / spec.name, out_dir=tmp_path / "first", image="x")
    locked = {"1.0.0": LockedVersion(sha256=made.archive_sha256, size_bytes=made.size_bytes)}
    changed = replace(project, models={spec.name: spec}, locks={spec.name: locked})
    stage = replace(project.stages["dev"], models={})
    (folder,) = package_all(changed, stage, out=tmp_path / "out", stopped=threading.Event())
    assert folder == tmp_path / "out" / "support_rag-1.0.0.model"
    assert verify(folder).findings == ()
