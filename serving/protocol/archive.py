"""The one safe reader of `model.tar.gz`: everything is checked before the folder appears under its name.

Three layouts, as their containers want them:
  Triton   <name>/streamhub.json, <name>/config.pbtxt, <name>/1/model.onnx, <name>/samples/request.json; steps of an
           ensemble are folders beside it
  vLLM     streamhub.json, config.json, *.safetensors, …, samples/request.json
  PyTorch  streamhub.json, code/inference.py, *.pt, …, samples/request.json
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ArchiveError
from serving.protocol.extraction import MAX_BYTES, MAX_FILES, extract
from serving.protocol.served import FILE_NAME, ServedModel
from serving.spec.runtime import PyTorchRuntime, TritonRuntime

_FILES = {
    "onnxruntime": ("model.onnx",),
    "pytorch": ("model.pt2", "model.pt"),
    "python": ("model.py",),
}
"""What each backend loads from its version folder: the first that is there (triton core, constants.h)."""

SAMPLE = "samples/request.json"
_FOLDER = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """An unpacked archive: `model` is the file that a Triton backend loads, else the model's folder."""

    root: Path
    served: ServedModel
    model: Path
    sample: Path | None


def unpack(archive: Path, into: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> ModelFolder:
    """Unpack an archive to `into`, which must be missing or empty; after an error nothing of it is there.

    Raises:
        ArchiveError: truncated, unsafe, too large, or not what its container needs.

    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ArchiveError(f"{into}: got a folder in use; allowed a missing or an empty one; choose another")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as temporary:
        inside = Path(temporary) / "model"
        inside.mkdir()
        if findings := extract(archive, inside, max_files=max_files, max_bytes=max_bytes).findings:
            raise ArchiveError("\n".join(findings))
        open_folder(inside, named=archive.name)
        inside.rename(into)
    return open_folder(into, named=archive.name)


def open_folder(root: Path, *, named: str = "") -> ModelFolder:
    """Read what an unpacked archive holds.

    Raises:
        ArchiveError: it is not what its container needs.

    """
    where = named or str(root)
    if (root / FILE_NAME).is_file():
        return _flat_folder(root, where)
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()]
    strays = [path.name for path in sorted(root.iterdir()) if not path.is_dir()]
    named_by = [path for path in folders if (path / FILE_NAME).is_file()]
    if len(named_by) != 1 or strays:
        got = ", ".join([f"{path.name}/" for path in folders] + strays)
        raise ArchiveError(
            f"{where}: got {got or 'nothing'} at the top and no {FILE_NAME}; allowed one folder <name>/ with "
            f"{FILE_NAME} (Triton), or {FILE_NAME} beside the model's files (vLLM); package it with `streamhub package`"
        )
    return _triton_folder(root, named_by[0], where, beside={path.name for path in folders} - {named_by[0].name})


def rearranged(root: Path) -> ModelFolder | None:
    """Put the files of a refused archive where its `streamhub.json` says, so that the rest can be looked at.

    Only for a folder that is thrown away. None where no document, or more than one, says what the files are, or where
    its names are no folders.
    """
    documents = [path for where in (FILE_NAME, f"*/{FILE_NAME}") for path in root.glob(where) if path.is_file()]
    try:
        served = ServedModel.from_json(documents[0].read_bytes()) if len(documents) == 1 else None
    except ArchiveError:
        return None
    if served is None:
        return None
    found, runtime = documents[0].parent, served.runtime
    if not isinstance(runtime, TritonRuntime):
        return ModelFolder(root=found, served=served, model=found, sample=_sample(found))
    home = root / served.name
    if not all(_FOLDER.fullmatch(name) for name in (served.name, *(step.name for step in runtime.steps))):
        return None
    if found != home:
        if home.exists():
            return None
        moved = [*root.iterdir()] if found == root else [*found.iterdir()]
        home.mkdir()
        for path in moved:
            path.rename(home / path.name)
    model = home if runtime.backend == "ensemble" else _loaded(home, runtime.backend)
    return ModelFolder(root=root, served=served, model=model, sample=_sample(home))


def _triton_folder(root: Path, folder: Path, where: str, *, beside: set[str]) -> ModelFolder:
    served = ServedModel.from_json((folder / FILE_NAME).read_bytes())
    runtime = served.runtime
    if not isinstance(runtime, TritonRuntime) or served.name != folder.name:
        raise ArchiveError(
            f"{where}: got a {runtime.kind} model {served.name!r} in folder {folder.name}/; "
            f"allowed a triton model in a folder of its name; package it with `streamhub package`"
        )
    if beside != (steps := {step.name for step in runtime.steps}):
        got = ", ".join(f"{name}/" for name in sorted(beside)) or "nothing"
        allowed = ", ".join(f"{name}/" for name in sorted(steps)) or "nothing: Triton would not know which is the model"
        raise ArchiveError(f"{where}: got {got} beside {folder.name}/; allowed {allowed}; package it again")
    needed = [folder / "config.pbtxt"]
    if runtime.backend == "ensemble":
        model = folder
        needed += [_loaded(root / step.name, step.backend) for step in runtime.steps]
    else:
        model = _loaded(folder, runtime.backend)
        needed.append(model)
    _need(where, root, tuple(needed))
    return ModelFolder(root=root, served=served, model=model, sample=_sample(folder))


def _loaded(folder: Path, backend: str) -> Path:
    candidates = [folder / "1" / name for name in _FILES[backend]]
    return next((path for path in candidates if path.is_file()), candidates[0])


def _flat_folder(root: Path, where: str) -> ModelFolder:
    served = ServedModel.from_json((root / FILE_NAME).read_bytes())
    if isinstance(served.runtime, TritonRuntime):
        raise ArchiveError(
            f"{where}: got a triton model at the top; allowed one folder {served.name}/ that holds it "
            f"(Triton refuses files at the top); package it with `streamhub package`"
        )
    needed = "code/inference.py" if isinstance(served.runtime, PyTorchRuntime) else "config.json"
    _need(where, root, (root / needed,))
    return ModelFolder(root=root, served=served, model=root, sample=_sample(root))


def _need(where: str, root: Path, files: tuple[Path, ...]) -> None:
    missing = [path.relative_to(root).as_posix() for path in files if not path.is_file()]
    if missing:
        raise ArchiveError(
            f"{where}: got no {' and no '.join(missing)}; its container needs it; package it with `streamhub package`"
        )


def _sample(folder: Path) -> Path | None:
    path = folder / SAMPLE
    return path if path.is_file() else None
