"""What was measured of a version's weights, and travels in its manifest: parity with training, loss by quantisation."""

from __future__ import annotations

from dataclasses import dataclass

from serving.spec.quantisation import Metric, QuantisationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far an answer may be from the expected one: |got - expected| ≤ absolute + relative · |expected|."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """How closely an exported graph answers as the network that was trained.

    `max_rel_error` is over expected values of at least `tolerance.absolute` in size; `batches` are the row counts that
    were asked, `rows` their sum; `toolchain` names the versions of what ran on both sides.
    """

    max_abs_error: float
    max_rel_error: float
    rows: int
    batches: tuple[int, ...]
    tolerance: Tolerance
    toolchain: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """The metric on the evaluation set before and after; `max_loss` is what the spec accepts."""

    kind: QuantisationKind
    metric: Metric
    rows: int
    before: float
    after: float
    max_loss: float
    evaluation_sha256: str
    calibration_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What was done to the weights of a version when it was packaged; digests are of the files it read.

    `quantisation` is None where the graph was only optimised.
    """

    source_sha256: str
    optimised: bool
    quantisation: Quantised | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where weights came from that were trained elsewhere: an MLflow model and the run that made it.

    `uri` is as it was asked for, `tracking_uri` without a login; `datasets` are the run's, name → MLflow's digest.
    What MLflow does not say is empty.
    """

    uri: str
    tracking_uri: str
    flavour: str
    model_id: str
    run_id: str
    experiment_id: str
    mlflow_version: str
    datasets: dict[str, str]
