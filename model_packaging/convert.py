"""The weights of a version as they are packaged: as trained, optimised, or quantised and still good enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import onnx
import onnxruntime

from model_packaging.accuracy import METRICS, NEEDS, OF_CLASSES, Truth
from model_packaging.arrays import ArraySet, read_arrays
from model_packaging.export import save
from model_packaging.inference import Answer, answers_of
from model_packaging.parity import check_parity
from model_packaging.quantise import optimise, to_fp16, to_int8_dynamic, to_int8_static
from serving.errors import PackagingError
from serving.spec.evidence import Conversion, Quantised
from serving.spec.model import ModelSpec, VersionSpec
from serving.spec.quantisation import QuantisationSpec
from serving.spec.runtime import TritonRuntime

DIGITS = 6
"""Of a metric: the last digits of a float differ between CPUs, and a manifest must not."""

_WITHOUT_DATA: Mapping[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "fp16": to_fp16,
    "int8-dynamic": to_int8_dynamic,
}


def converted(
    spec: ModelSpec, trained: VersionSpec, *, weights: Path, model_dir: Path, scratch: Path
) -> tuple[Path, Conversion | None]:
    """Give the weights to package and what was done to them; the trained ones and None where nothing is asked.

    Args:
        spec: the model.
        trained: the version.
        weights: its ONNX file.
        model_dir: where the paths of the version start.
        scratch: a folder for the converted graph; the trained file stays as it is.

    Raises:
        PackagingError: the graph or a set of arrays is unusable, the optimised graph answers otherwise, or the
            quantised one lost more than the spec accepts.

    """
    if trained.quantisation is None and not trained.optimise:
        return weights, None
    data, model = _load(weights)
    if trained.optimise:
        model = _optimised(model, spec)
    quantised = None
    if trained.quantisation is not None:
        model, quantised = _quantised(model, trained.quantisation, spec, model_dir)
    path = scratch / weights.name
    save(model, path)
    digest = sha256(data).hexdigest()
    return path, Conversion(source_sha256=digest, optimised=trained.optimise, quantisation=quantised)


def _load(weights: Path) -> tuple[bytes, onnx.ModelProto]:
    try:
        data = weights.read_bytes()
        return data, onnx.load_from_string(data)
    except Exception as error:  # noqa: BLE001 - protobuf's error class differs between its implementations
        raise PackagingError(
            f"{weights.name}: got no ONNX model ({error}); allowed a self-contained ONNX file; export it again"
        ) from None


def _largest(spec: ModelSpec) -> int:
    return max(1, spec.runtime.max_batch_size) if isinstance(spec.runtime, TritonRuntime) else 1


def _optimised(model: onnx.ModelProto, spec: ModelSpec) -> onnx.ModelProto:
    try:
        better = optimise(model)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has a class for each of its failures, none of them common
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise PackagingError(
            f"optimise: got an error of ONNX Runtime ({first}); allowed a graph that it loads; leave optimise out to "
            f"see all that is wrong with it"
        ) from None
    check_parity(
        answers_of(better),
        answers_of(model),
        inputs=spec.inputs,
        rows=sorted({1, _largest(spec)}),
        toolchain={"onnxruntime": onnxruntime.__version__},
    )
    return better


def _quantised(
    model: onnx.ModelProto, asked: QuantisationSpec, spec: ModelSpec, model_dir: Path
) -> tuple[onnx.ModelProto, Quantised]:
    evaluation = read_arrays(model_dir / asked.evaluation, spec.inputs, columns=NEEDS[asked.metric])
    calibration_sha256 = ""
    try:
        if asked.kind == "int8-static":
            calibration = read_arrays(model_dir / asked.calibration, spec.inputs)
            calibration_sha256 = calibration.sha256
            smaller = to_int8_static(model, calibration.inputs)
        else:
            smaller = _WITHOUT_DATA[asked.kind](model)
    except PackagingError:
        raise
    except Exception as error:  # noqa: BLE001 - onnx and ONNX Runtime have many errors, none of them common
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise PackagingError(
            f"quantisation: got an error of ONNX Runtime ({first}); allowed a graph that {asked.kind} can convert; "
            f"choose another kind"
        ) from None
    before, after = _measured(model, smaller, asked, spec, evaluation)
    if not before - after <= asked.max_loss:  # so written, not a number is refused too
        raise PackagingError(
            f"quantisation: got {asked.metric} {after:g} after {asked.kind} and {before:g} before; allowed a loss of "
            f"{asked.max_loss:g}; calibrate on more rows, choose another kind, or accept a larger loss"
        )
    return smaller, Quantised(
        kind=asked.kind,
        metric=asked.metric,
        rows=evaluation.rows,
        before=before,
        after=after,
        max_loss=asked.max_loss,
        evaluation_sha256=evaluation.sha256,
        calibration_sha256=calibration_sha256,
    )


def _measured(
    model: onnx.ModelProto, smaller: onnx.ModelProto, asked: QuantisationSpec, spec: ModelSpec, evaluation: ArraySet
) -> tuple[float, float]:
    output = asked.output or spec.outputs[0].name
    ask: list[Answer] = [answers_of(each, batch_rows=_largest(spec)) for each in (model, smaller)]
    reference, answers = (each(evaluation.inputs)[output] for each in ask)
    columns = reference.size // max(1, len(reference))
    if (columns > 1) != (asked.metric in OF_CLASSES):
        allowed = "2 or more" if asked.metric in OF_CLASSES else "1"
        raise PackagingError(
            f"quantisation.metric: got {asked.metric} of output {output!r} with {columns} columns; allowed {allowed}; "
            f"choose another metric or output"
        )
    truth = Truth(reference=reference, target=evaluation.columns.get("target"), group=evaluation.columns.get("group"))
    measure = METRICS[asked.metric]
    return round(measure(reference, truth), DIGITS), round(measure(answers, truth), DIGITS)
