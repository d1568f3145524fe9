"""Two models on the same inputs: how far their answers are apart, and whether that is too far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from model_packaging.inference import Answer, Arrays
from serving.errors import PackagingError
from serving.protocol.tensors import DTYPES, Array
from serving.spec.evidence import Parity, Tolerance
from serving.spec.tensors import DType, TensorSpec

FP32 = Tolerance(absolute=1e-5, relative=1e-4)
"""For networks in FP32, whose sums are added in another order by another library."""

_FREE = 7
"""Length of a dimension that varies, in drawn inputs."""

_WITHOUT_RANGE = (0, 100)
"""Integers that every embedding of some size knows; a spec's `range` says better."""

_FLOAT_SPREAD = 4.0
_WORDS = ("", "a", "video", "FIGHT!", "日本語", "naïve", "🎉", "x" * 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The largest differences of one comparison, and every way in which it is beyond the tolerance."""

    max_abs_error: float
    max_rel_error: float
    problems: tuple[str, ...]


def draw(specs: Sequence[TensorSpec], rows: int, rng: np.random.Generator) -> dict[str, Array]:
    """Draw inputs (rows, …) of the spec's types, within its ranges and categories."""
    return {
        spec.name: _drawn(spec, (rows, *(_FREE if size < 0 else size for size in spec.shape)), rng) for spec in specs
    }


def _drawn(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if spec.dtype is DType.BYTES:
        words = spec.categories or _WORDS
        texts = np.empty(math.prod(shape), dtype=np.object_)
        texts[:] = [" ".join(rng.choice(words, 1 if spec.categories else 3)).encode() for _ in range(texts.size)]
        return texts.reshape(shape)
    dtype = DTYPES[spec.dtype.value]
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = spec.range if spec.range is not None else _integers(dtype)
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    if spec.range is not None:
        return rng.uniform(*spec.range, shape).astype(dtype)
    return rng.normal(0.0, _FLOAT_SPREAD, shape).astype(dtype)


def _integers(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    return (0, 255) if dtype == np.uint8 else _WITHOUT_RANGE


def compare(expected: Arrays, got: Arrays, tolerance: Tolerance) -> Difference:
    """Compare answers by name: numbers within the tolerance, everything else exactly."""
    worst_abs = worst_rel = 0.0
    problems: list[str] = []
    if expected.keys() != got.keys():
        problems.append(f"outputs: got {sorted(got)}; allowed {sorted(expected)}; name them alike")
    for name in sorted(expected.keys() & got.keys()):
        want, have = expected[name], got[name]
        if want.shape != have.shape or want.dtype.kind != have.dtype.kind:
            have_text, want_text = (f"{array.dtype} {list(array.shape)}" for array in (have, want))
            problems.append(f"output {name!r}: got {have_text}; allowed {want_text}; export it again")
            continue
        if not (_finite(want) and _finite(have)):
            what = f"output {name!r}: got values that are not finite"
            problems.append(f"{what}; allowed numbers; mend the network or inputs.range")
            continue
        absolute, relative = _errors(want, have, floor=tolerance.absolute)
        worst_abs, worst_rel = max(worst_abs, absolute), max(worst_rel, relative)
        problems += _beyond(name, want, have, tolerance)
    return Difference(max_abs_error=worst_abs, max_rel_error=worst_rel, problems=tuple(problems))


def _finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _errors(want: Array, have: Array, *, floor: float) -> tuple[float, float]:
    if want.dtype.kind not in "fiu" or not want.size:
        return 0.0, 0.0
    size = np.abs(want.astype(np.float64))
    apart = np.abs(have.astype(np.float64) - want.astype(np.float64))
    counted = size >= floor
    return float(apart.max()), float((apart[counted] / size[counted]).max()) if counted.any() else 0.0


def _beyond(name: str, want: Array, have: Array, tolerance: Tolerance) -> Iterator[str]:
    if want.dtype.kind != "f":
        if not np.array_equal(want, have):
            yield f"output {name!r}: got {int((want != have).sum())} other values; allowed none; export it again"
        return
    apart = np.abs(have.astype(np.float64) - want.astype(np.float64))
    excess = apart - tolerance.absolute - tolerance.relative * np.abs(want.astype(np.float64))
    if (excess > 0).any():
        yield (
            f"output {name!r}: got {apart[excess > 0].max():.3g} away from the trained network in "
            f"{int((excess > 0).sum())} of {apart.size} values; allowed {tolerance.absolute:g} + "
            f"{tolerance.relative:g} of the value; export it in eval mode, with the weights that were trained"
        )


def check_parity(
    answer: Answer,
    reference: Answer,
    *,
    inputs: Sequence[TensorSpec],
    rows: Iterable[int],
    toolchain: Mapping[str, str],
    samples: Iterable[Arrays] = (),
    tolerance: Tolerance = FP32,
    seed: int = 0,
) -> Parity:
    """Ask both models drawn batches of each size of `rows`, then the samples; give the largest differences.

    Args:
        answer: the exported graph.
        reference: the network that was trained; it is asked the same arrays.
        inputs: what is drawn.
        rows: sizes of drawn batches; name 1 and the largest that is served.
        toolchain: versions of what ran on both sides.
        samples: real inputs, beside the drawn ones.
        tolerance: what is accepted.
        seed: of the draw.

    Raises:
        PackagingError: an answer is beyond the tolerance, has another shape or type, or is not finite.

    """
    rng = np.random.default_rng(seed)
    batches = [*(draw(inputs, size, rng) for size in rows), *samples]
    sizes = tuple(len(next(iter(batch.values()))) for batch in batches)
    found = [compare(reference(batch), answer(batch), tolerance) for batch in batches]
    wrong = [
        f"parity at {size} rows: {text}" for size, each in zip(sizes, found, strict=True) for text in each.problems
    ]
    if wrong:
        raise PackagingError("\n".join(wrong))
    return Parity(
        max_abs_error=max(each.max_abs_error for each in found),
        max_rel_error=max(each.max_rel_error for each in found),
        rows=sum(sizes),
        batches=sizes,
        tolerance=tolerance,
        toolchain=dict(toolchain),
    )
