"""Smaller weights from trained ones, by ONNX Runtime's own converters: the same bytes on any machine.

What is kept of the float graph: names, types and shapes of inputs and outputs, the free batch, the opset. Whether the
answers are still good enough is for `convert` to say.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    calibrate,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.quant_utils import add_pre_process_metadata
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel

from model_packaging.export import tidy
from model_packaging.inference import Arrays, for_runtime

STATIC_OPERATORS = ("Conv", "Gemm", "MatMul")
"""Where nearly all multiplications are; the rest (Sigmoid, Softmax, normalisation) stays in FP32."""

DYNAMIC_OPERATORS = ("Gemm", "MatMul")
"""ONNX Runtime advises dynamic quantisation for these, static for convolutions
(https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html)."""

CALIBRATION_ROWS = 64
"""Rows asked at once while ranges are collected."""

_SIGNIFICANT = 1 << 8


def optimise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Apply the rewrites of ONNX Runtime's level `basic`: constants folded, needless nodes dropped, ConvBN fused.

    Higher levels write operators that one device and release alone know, and are left to the server that loads it
    (https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html).
    """
    with tempfile.TemporaryDirectory(prefix="streamhub-optimise-") as folder:
        path = Path(folder) / "optimised.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return _as_before(onnx.load(path), model)


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Keep weights and arithmetic in FP16, inputs and outputs in the types they have."""
    converted: onnx.ModelProto = convert_float_to_float16(_copy(model), keep_io_types=True)
    return _as_before(converted, model)


def to_int8_dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """Keep the weights of matrix products in INT8; their inputs are scaled anew in each request."""

    def convert(path: Path) -> None:
        quantize_dynamic(
            _prepared(model),
            path,
            op_types_to_quantize=list(DYNAMIC_OPERATORS),
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )

    return _as_before(_written(convert), model)


def to_int8_static(model: onnx.ModelProto, calibration: Arrays) -> onnx.ModelProto:
    """Keep weights in INT8 and activations in UINT8 between the ranges that the calibration rows show.

    Weights take 7 of their 8 bits: products of both types then fit the 16-bit sums of CPUs without VNNI, so that an
    archive answers the same on every CPU (`reduce_range` in ONNX Runtime's words).
    """
    prepared = _prepared(model)

    def convert(path: Path) -> None:
        ranges = path.with_name("ranges.json")
        calibrate.save_tensors_data(_ranges(prepared, calibration, path.with_name("augmented.onnx")), ranges)
        quantize_static(
            prepared,
            path,
            calibration_cache_path=ranges,
            calibrate_method=CalibrationMethod.MinMax,
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(STATIC_OPERATORS),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )

    return _as_before(_written(convert), model)


def widened(low: float, high: float) -> tuple[float, float]:
    """Round a range outward to eight binary digits.

    Sums of floats differ in their last digits between CPUs; a range, and with it the bytes of the graph, must not.
    """
    return -_outward(-low), _outward(high)


def _outward(value: float) -> float:
    fraction, exponent = math.frexp(value)
    return math.ldexp(math.ceil(fraction * _SIGNIFICANT) / _SIGNIFICANT, exponent)


class _Batches(CalibrationDataReader):  # type: ignore[misc]
    """Calibration rows as ONNX Runtime's calibrator asks for them."""

    def __init__(self, arrays: Arrays) -> None:
        self._batches = self._slices(arrays)

    @staticmethod
    def _slices(arrays: Arrays) -> Iterator[dict[str, np.ndarray]]:
        feeds = {name: for_runtime(array) for name, array in arrays.items()}
        for start in range(0, min(map(len, feeds.values())), CALIBRATION_ROWS):
            yield {name: feed[start : start + CALIBRATION_ROWS] for name, feed in feeds.items()}

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._batches, None)


def _ranges(model: onnx.ModelProto, calibration: Arrays, scratch: Path) -> calibrate.TensorsData:
    calibrator = calibrate.create_calibrator(
        _saved(model, scratch.with_name("prepared.onnx")), list(STATIC_OPERATORS), augmented_model_path=scratch
    )
    calibrator.collect_data(_Batches(calibration))
    found = calibrator.compute_data()
    rounded = {}
    for name, data in sorted(found.items()):
        low, high = widened(float(np.min(data.range_value[0])), float(np.max(data.range_value[1])))
        rounded[name] = (np.float32(low), np.float32(high))
    return calibrate.TensorsData(CalibrationMethod.MinMax, rounded)


def _prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    prepared = optimise(model)
    add_pre_process_metadata(prepared)  # else each conversion advises to do what was just done
    return prepared


def _written(convert: Callable[[Path], None]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory(prefix="streamhub-quantise-") as folder:
        path = Path(folder) / "converted.onnx"
        convert(path)
        return onnx.load(path)


def _saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _as_before(converted: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """Give the converted graph the frame of the trained one: producer, and inputs and outputs with their free batch."""
    used = {node.domain for node in converted.graph.node}
    imported = [opset for opset in converted.opset_import if opset.domain in used]
    del converted.opset_import[:]
    converted.opset_import.extend(imported)
    OnnxModel(converted).topological_sort(is_deterministic=True)
    converted.producer_name, converted.producer_version = model.producer_name, model.producer_version
    for mine, theirs in ((converted.graph.input, model.graph.input), (converted.graph.output, model.graph.output)):
        del mine[:]
        mine.extend(theirs)
    return tidy(converted, ir_version=model.ir_version)
