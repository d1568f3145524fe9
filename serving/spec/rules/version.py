"""Rules on versions: what may be done to their weights, and under which licence they may be passed on."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from serving.spec.model import ModelSpec
from serving.spec.quantisation import QuantisationSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.runtime import TritonRuntime

_ORT_QUANTISATION = "onnxruntime.ai: Quantize ONNX models"
_SPDX = "spdx.org/licenses"


def licence_is_known(model: ModelSpec) -> Iterator[Finding]:
    """A licence is an SPDX expression, so that a program can tell what may be passed on."""
    try:
        canonical = canonicalize_license_expression(model.licence)
    except InvalidLicenseExpression:
        fix = "name the SPDX identifier, or LicenseRef-… for terms of your own"
        yield "licence", repr(model.licence), "an SPDX licence expression such as Apache-2.0", fix, _SPDX
        return
    if canonical != model.licence:
        yield "licence", repr(model.licence), repr(canonical), "write it as SPDX does", _SPDX


def conversions_fit_the_runtime(model: ModelSpec) -> Iterator[Finding]:
    """Only one ONNX graph in batches of rows is converted, and to INT8 only where kernels for it run it."""
    is_graph = _is_one_graph(model)
    for version, trained in model.versions.items():
        key = f"versions.{version}"
        if not is_graph and (trained.optimise or trained.quantisation is not None):
            yield (
                key,
                "a conversion",
                "one of a batched ONNX model, no input ragged",
                "leave out optimise and quantisation",
                "",
            )
        elif trained.quantisation is not None:
            yield from _quantisation(f"{key}.quantisation", trained.quantisation, model)


def _is_one_graph(model: ModelSpec) -> bool:
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime) or runtime.backend != "onnxruntime" or runtime.batch_inputs:
        return False
    return runtime.max_batch_size > 0 and not any(tensor.ragged for tensor in model.inputs)


def _quantisation(key: str, asked: QuantisationSpec, model: ModelSpec) -> Iterator[Finding]:
    if asked.kind != "fp16" and isinstance(model.runtime, TritonRuntime) and model.runtime.device == "gpu":
        yield f"{key}.kind", repr(asked.kind), "'fp16' on a GPU", 'choose fp16 or device = "cpu"', _ORT_QUANTISATION
    if asked.kind == "int8-dynamic" and isinstance(model.runtime, TritonRuntime) and model.runtime.max_batch_size > 1:
        # it scales a whole batch together: what one row is answered would depend on whoever shares its batch
        fix = "calibrate and choose int8-static, or set max_batch_size = 1"
        yield f"{key}.kind", "'int8-dynamic' with batches", "'int8-static' or 'fp16'", fix, _ORT_QUANTISATION
    if (asked.kind == "int8-static") != bool(asked.calibration):
        allowed = "a file for int8-static, and for it alone"
        yield f"{key}.calibration", repr(asked.calibration), allowed, "add it or leave it out", _ORT_QUANTISATION
    if not 0 <= asked.max_loss < 1:
        yield f"{key}.max_loss", f"{asked.max_loss:g}", "0 or more, below 1", "say how much may be lost", ""
    names = [output.name for output in model.outputs]
    if asked.output and asked.output not in names:
        yield f"{key}.output", repr(asked.output), f"one of {', '.join(names)}", "name an output", ""


RULES: tuple[Rule, ...] = (
    licence_is_known,
    conversions_fit_the_runtime,
)
