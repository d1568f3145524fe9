"""What SageMaker's inference instance types are and where they are sold: a committed table, written by a script.

`scripts/instance_table.py` writes `data/instances.json` out of botocore, cfn-lint and moto; a test compares.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import orjson

# Types whose endpoint quota is commonly 0 in a new account: A100 and newer, Trainium, and types of several GPUs. AWS
# publishes no defaults; this is what users report (aws-samples/sagemaker-custom-project-templates#51,
# amazon-sagemaker-examples#307, #593).
_QUOTA_PRONE_PREFIXES = ("ml.p", "ml.trn", "ml.dl")
_SEVERAL_GPUS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One type; `gpu_memory_mib` is of one GPU, `regions` are those whose price list has it for hosting."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int
    gpu: str
    gpu_memory_mib: int
    nvme_gb: int
    arm: bool
    burstable: bool
    regions: frozenset[str]

    @property
    def has_local_nvme(self) -> bool:
        """Whether it has instance-store disks, which take no key of ours and leave no volume to size."""
        return self.nvme_gb > 0

    @property
    def quota_prone(self) -> bool:
        """Whether a new account commonly may run none of it."""
        return self.name.startswith(_QUOTA_PRONE_PREFIXES) or self.gpus >= _SEVERAL_GPUS


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Give every type that an endpoint may name."""
    table = orjson.loads(files("serving.spec").joinpath("data/instances.json").read_bytes())
    return {
        name: InstanceType(name=name, **{**row, "regions": frozenset(row["regions"])}) for name, row in table.items()
    }


@cache
def hosting_regions() -> frozenset[str]:
    """Give every region that sells any of them."""
    return frozenset().union(*(found.regions for found in instance_types().values()))


def nearest(name: str) -> tuple[str, ...]:
    """Give up to three types whose names are most like this one."""
    return tuple(difflib.get_close_matches(name, instance_types(), n=3, cutoff=0.0))


def has_local_nvme(name: str) -> bool:
    """Tell whether a type has instance-store disks.

    CreateEndpointConfig refuses a KmsKeyId on those (API reference, *KmsKeyId*): the hardware encrypts them with a
    key of its own.
    """
    found = instance_types().get(name)
    return found is not None and found.has_local_nvme
