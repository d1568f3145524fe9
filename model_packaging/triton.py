"""A Triton model repository in an archive: one folder of one model, or an ensemble beside its steps.

`<name>/` has `streamhub.json` and the sample; every folder has `config.pbtxt`, its version folder `1/` and, where its
warm-up is taken from the sample, `warmup/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from model_packaging.archive import Member
from model_packaging.backend_files import file_problems, python_files, served_name
from model_packaging.triton_config import (
    ENVIRONMENT,
    VERSION,
    TritonModel,
    ensemble_config,
    model_config,
    to_text,
)
from model_packaging.triton_config_check import config_problems
from serving.protocol.archive import SAMPLE
from serving.protocol.elements import to_bytes
from serving.protocol.served import FILE_NAME, ServedModel
from serving.protocol.tensors import Tensor
from serving.spec.runtime import EnsembleStepSpec, TritonRuntime
from serving.spec.tensors import DType, TensorSpec

PLACEHOLDER = "ensemble"
"""The empty file in the version folder of an ensemble: Triton wants the folder, a tar of files has no empty one."""


def weights_problems(served: ServedModel, weights: Path) -> Iterator[str]:
    """Give every reason why Triton would not load the weights of a version, before they are in an archive."""
    runtime = _runtime(served)
    if runtime.backend != "ensemble":
        model = _whole(served, runtime, weights)
        yield from (f"{weights.name}: {problem}" for problem in file_problems(model, weights))
        return
    if not weights.is_dir():
        yield f"{weights}: got no folder; allowed one with a file for each step; correct the path of the weights"
        return
    known = set()
    for step in runtime.steps:
        path = step_weights(weights, step)
        known.add(path.name)
        model = TritonModel.step(served, runtime, step, file=served_name(step.backend, path))
        yield from (f"{path.name}: {problem}" for problem in file_problems(model, path))
    for name in sorted({path.name for path in weights.iterdir()} - known):
        yield f"{name}: got a file of no step; allowed {', '.join(sorted(known))}; remove it or name a step after it"


def step_weights(folder: Path, step: EnsembleStepSpec) -> Path:
    """Give where the weights of a step are, or should be."""
    if step.backend == "python":
        return folder / step.name
    suffixes = {"onnxruntime": (".onnx",), "pytorch": (".pt2", ".pt")}[step.backend]
    candidates = [folder / f"{step.name}{suffix}" for suffix in suffixes]
    return next((path for path in candidates if path.is_file()), candidates[0])


def layout(
    served: ServedModel, *, weights: Path | bytes, sample: bytes | None, first_row: Sequence[Tensor]
) -> list[Member]:
    """Give the members of the archive, as Triton's SageMaker frontend wants them: folders at the top, no files.

    Args:
        served: what the archive says of the model.
        weights: the file (or the bytes of an ONNX file), a Python model's folder, or an ensemble's.
        sample: `samples/request.json`; None where the model's types have no form in JSON.
        first_row: one row of each input, for the warm-up (the whole tensor where there are no batches).

    """
    runtime = _runtime(served)
    members = [Member(f"{served.name}/{FILE_NAME}", served.to_json())]
    if sample is not None:
        members.append(Member(f"{served.name}/{SAMPLE}", sample))
    if runtime.backend != "ensemble":
        model = _whole(served, runtime, weights)
        return [*members, *_folder(replace(model, warmup=_warmup(model.inputs, first_row)), weights)]
    if isinstance(weights, bytes):
        raise TypeError(f"{served.name} is an ensemble; its weights are a folder")
    members.append(Member(f"{served.name}/config.pbtxt", to_text(ensemble_config(served, runtime))))
    members.append(Member(f"{served.name}/{VERSION}/{PLACEHOLDER}", b""))
    for step in runtime.steps:
        path = step_weights(weights, step)
        model = TritonModel.step(served, runtime, step, file=served_name(step.backend, path))
        warmup = _warmup(step.inputs, _read_by(step, first_row))
        environment = (path / ENVIRONMENT).is_file()
        members += _folder(replace(model, warmup=warmup, environment=environment), path)
    return members


def repository_problems(root: Path, served: ServedModel) -> Iterator[str]:
    """Give every reason why Triton would not load an unpacked archive, or would serve another model than it says."""
    try:
        yield from _repository_problems(root, served)
    except (ValueError, OverflowError) as error:
        yield f"{FILE_NAME}: got numbers that Triton's schema has no room for ({error}); allowed those of a spec"


def _repository_problems(root: Path, served: ServedModel) -> Iterator[str]:
    runtime = _runtime(served)
    if runtime.backend == "ensemble":
        yield from _in(served.name, config_problems(root / served.name, ensemble_config(served, runtime)))
        models = [
            TritonModel.step(served, runtime, step, file=_found(root / step.name, step.backend))
            for step in runtime.steps
        ]
    else:
        models = [TritonModel.whole(served, runtime, file=_found(root / served.name, runtime.backend))]
    for model in models:
        folder = root / model.name
        model_here = replace(model, environment=(folder / ENVIRONMENT).is_file())
        yield from _in(model.name, config_problems(folder, model_config(model_here)))
        version = folder / str(VERSION)
        loaded = version if model.backend == "python" else version / model.file
        where = loaded if model.backend == "onnxruntime" else version
        yield from _in(where.relative_to(root).as_posix(), file_problems(model, loaded))


def _in(folder: str, problems: Iterator[str]) -> Iterator[str]:
    return (f"{folder}: {problem}" for problem in problems)


def _found(folder: Path, backend: str) -> str:
    """Give which of a backend's files a packaged folder has."""
    names = {"onnxruntime": ["model.onnx"], "pytorch": ["model.pt2", "model.pt"], "python": ["model.py"]}[backend]
    return next((name for name in names if (folder / str(VERSION) / name).is_file()), names[0])


def _runtime(served: ServedModel) -> TritonRuntime:
    if not isinstance(served.runtime, TritonRuntime):
        raise TypeError(f"{served.name} is a {served.runtime.kind} model")
    return served.runtime


def _whole(served: ServedModel, runtime: TritonRuntime, weights: Path | bytes) -> TritonModel:
    if isinstance(weights, bytes) or runtime.backend == "ensemble":
        return TritonModel.whole(served, runtime, file="model.onnx")
    model = TritonModel.whole(served, runtime, file=served_name(runtime.backend, weights))
    return replace(model, environment=model.backend == "python" and (weights / ENVIRONMENT).is_file())


def _folder(model: TritonModel, weights: Path | bytes) -> Iterator[Member]:
    yield Member(f"{model.name}/config.pbtxt", to_text(model_config(model)))
    if model.backend == "python" and isinstance(weights, Path):
        for name in python_files(weights):
            yield Member(f"{model.name}/{VERSION}/{name}", weights / name)
        if model.environment:
            yield Member(f"{model.name}/{ENVIRONMENT}", weights / ENVIRONMENT)
    else:
        yield Member(f"{model.name}/{VERSION}/{model.file}", weights)
    for tensor in model.warmup or ():
        yield Member(f"{model.name}/warmup/{tensor.name}", to_bytes(tensor.array))


def _read_by(step: EnsembleStepSpec, first_row: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give the sample under a step's own names, if it is all that the step reads."""
    whole = {tensor.name: tensor.array for tensor in first_row}
    sources = {tensor.name: step.reads.get(tensor.name, tensor.name) for tensor in step.inputs}
    if not set(sources.values()) <= set(whole):
        return ()
    return tuple(Tensor(name, whole[source]) for name, source in sources.items())


def _warmup(inputs: Sequence[TensorSpec], first_row: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Choose what a model is warmed up with: the sample, else zeros where the shapes say how many, else nothing."""
    if first_row:
        return tuple(first_row)
    countable = all(spec.dtype is not DType.BYTES and min(spec.shape, default=1) > 0 for spec in inputs)
    return () if countable else None
