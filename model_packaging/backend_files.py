"""What a Triton backend finds in a version folder: which file it is, and every reason why it would not load it.

Sources: triton-inference-server/core, constants.h (file names and platforms); pytorch_backend, src/pt and src/pt2;
python_backend, README. Nothing is imported or unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from model_packaging.onnx_graph import graph_problems
from model_packaging.pickle_scan import UNREADABLE_ZIP, pickle_problems
from model_packaging.python_source import BYTECODE_SUFFIXES, defined_methods, syntax_problems
from model_packaging.triton_config import ENVIRONMENT, TritonModel
from serving.spec.runtime import StepBackend

FILES: dict[StepBackend, tuple[str, ...]] = {
    "onnxruntime": ("model.onnx",),
    "pytorch": ("model.pt", "model.pt2"),
    "python": ("model.py",),
}
"""The name each backend looks for; the PyTorch backend takes TorchScript or an AOTInductor package."""

_CLASS = "TritonPythonModel"
_MAX_METADATA_BYTES = 1 << 20


def served_name(backend: StepBackend, weights: Path) -> str:
    """Give the name that a model's weights get in the version folder (a Python model's is that of its source)."""
    names = FILES[backend]
    return next((name for name in names if weights.suffix == Path(name).suffix), names[0])


def file_problems(model: TritonModel, path: Path) -> Iterator[str]:
    """Check what `model` loads: a file, or for Python the folder that has its `model.py`."""
    match model.backend:
        case "onnxruntime":
            yield from graph_problems(
                path,
                model.inputs,
                model.outputs,
                batched=model.batching.max_batch_size > 0,
                computed=model.batch_inputs,
            )
        case "pytorch":
            yield from _torch_problems(path, model)
        case "python":
            yield from _python_problems(path)


def python_files(folder: Path) -> list[str]:
    """Give the files of a Python model, but for its environment and what Python leaves behind."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if name != ENVIRONMENT and "__pycache__" not in name.split("/")]


def _python_problems(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        yield "got no folder; allowed one with model.py; correct the path of the weights"
        return
    source = folder / "model.py"
    if not source.is_file():
        yield "got no model.py; allowed one with the class TritonPythonModel; add it"
    else:
        yield from syntax_problems(source, "model.py")
        methods = defined_methods(source, _CLASS)
        if methods is not None and "execute" not in methods:
            got = f"only {', '.join(sorted(methods))}" if methods else f"no class {_CLASS} with methods"
            yield f"model.py: got {got}; allowed {_CLASS}.execute(self, requests); define it"
    if (folder / "requirements.txt").is_file():
        yield (
            f"requirements.txt: got a list that Triton does not read, and an isolated network could not install; "
            f"allowed packages in {ENVIRONMENT}; make it with conda-pack and leave the list out"
        )
    for name in python_files(folder):
        if name.endswith(BYTECODE_SUFFIXES):
            yield f"{name}: got compiled or packed Python; allowed source, packages in {ENVIRONMENT}; leave it out"
        else:
            yield from pickle_problems(folder / name, name)


def _torch_problems(path: Path, model: TritonModel) -> Iterator[str]:
    if not path.is_file():
        yield "got no such file; allowed TorchScript (.pt) or an AOTInductor package (.pt2); correct the path"
        return
    yield from pickle_problems(path, path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            devices = _aoti_devices(archive, names) if path.suffix == ".pt2" else []
    except UNREADABLE_ZIP as error:
        yield f"{path.name}: got no archive of torch ({error}); allowed what torch.jit.save or AOTInductor writes"
        return
    if path.suffix == ".pt2":
        yield from _aoti_problems(path.name, names, devices, model.device)
    elif not any("/code/" in name for name in names):
        yield (
            f"{path.name}: got weights without code; allowed TorchScript, as torch.jit.save writes it, or better an "
            f"AOTInductor package (.pt2); export the whole module"
        )


def _aoti_problems(name: str, members: Sequence[str], devices: Sequence[str], device: str) -> Iterator[str]:
    """An exported program alone is no package, and a package runs on the device it was compiled for."""
    if not any("/aotinductor/" in member for member in members):
        yield (
            f"{name}: got an exported program, not compiled; allowed what torch._inductor.aoti_compile_and_package "
            f"writes (Triton's platform torch_aoti); compile it"
        )
    wanted = "cuda" if device == "gpu" else "cpu"
    if other := sorted(set(devices) - {wanted}):
        yield f"{name}: got a package compiled for {', '.join(other)}; allowed {wanted}; compile it for that device"


def _aoti_devices(archive: zipfile.ZipFile, names: Sequence[str]) -> list[str]:
    """Read the device that AOTInductor notes in each package's metadata."""
    found = []
    for name in names:
        small = name.endswith("metadata.json") and archive.getinfo(name).file_size <= _MAX_METADATA_BYTES
        if "/aotinductor/" in name and small:
            document = orjson.loads(archive.read(name))
            if isinstance(document, dict) and isinstance(device := document.get("AOTI_DEVICE_KEY"), str):
                found.append(device)
    return found
