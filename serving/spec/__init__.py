"""What a model and a stage are, as frozen types; the only home of their files' formats."""

from serving.spec.api_shell import ApiShell
from serving.spec.effective import in_stage
from serving.spec.hosting import (
    AsyncSpec,
    BatchSpec,
    ComponentSpec,
    DeploymentSpec,
    HostingMode,
    HostingSpec,
    Strategy,
)
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
from serving.spec.quantisation import QuantisationSpec
from serving.spec.runtime import Runtime, TritonRuntime, VllmRuntime
from serving.spec.scaling import CustomMetricSpec, ScalingSpec, ScheduleSpec, StepPolicySpec, StepSpec
from serving.spec.stage import (
    SLOTS,
    ImageOverride,
    ShadowSpec,
    Slot,
    SlotVersions,
    StageBatch,
    StageModel,
    StageSpec,
    batch_endpoint_name,
    endpoint_name,
    shadow_endpoint_name,
)
from serving.spec.tensors import DType, TensorSpec

__all__ = [
    "SLOTS",
    "ApiShell",
    "ApiSpec",
    "AsyncSpec",
    "BatchSpec",
    "BudgetSpec",
    "ComponentSpec",
    "CustomMetricSpec",
    "DType",
    "DeploymentSpec",
    "DriftSpec",
    "Fallback",
    "FeatureViewSpec",
    "GuardrailSpec",
    "HostingMode",
    "HostingSpec",
    "ImageOverride",
    "ModelSpec",
    "QuantisationSpec",
    "ReleaseSpec",
    "Runtime",
    "ScalingSpec",
    "ScheduleSpec",
    "ShadowSpec",
    "Slo",
    "Slot",
    "SlotVersions",
    "StageBatch",
    "StageModel",
    "StageSpec",
    "StepPolicySpec",
    "StepSpec",
    "Strategy",
    "TensorSpec",
    "TritonRuntime",
    "VersionSpec",
    "VllmRuntime",
    "batch_endpoint_name",
    "endpoint_name",
    "in_stage",
    "shadow_endpoint_name",
]
