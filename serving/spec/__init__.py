"""What a model and a stage are, as frozen types; the only home of their files' formats."""

from serving.spec.hosting import HostingMode, HostingSpec, ScalingSpec
from serving.spec.model import (
    ApiSpec,
    BudgetSpec,
    DriftSpec,
    Fallback,
    FeatureViewSpec,
    GuardrailSpec,
    ModelSpec,
    ReleaseSpec,
    Slo,
    VersionSpec,
)
from serving.spec.runtime import Runtime, TritonRuntime, VllmRuntime
from serving.spec.stage import SLOTS, Slot, SlotVersions, StageModel, StageSpec, endpoint_name
from serving.spec.tensors import DType, TensorSpec

__all__ = [
    "SLOTS",
    "ApiSpec",
    "BudgetSpec",
    "DType",
    "DriftSpec",
    "Fallback",
    "FeatureViewSpec",
    "GuardrailSpec",
    "HostingMode",
    "HostingSpec",
    "ModelSpec",
    "ReleaseSpec",
    "Runtime",
    "ScalingSpec",
    "Slo",
    "Slot",
    "SlotVersions",
    "StageModel",
    "StageSpec",
    "TensorSpec",
    "TritonRuntime",
    "VersionSpec",
    "VllmRuntime",
    "endpoint_name",
]
