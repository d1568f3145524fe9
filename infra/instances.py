"""What SageMaker's instance types allow, as far as a template needs to know it."""

from __future__ import annotations

# Families whose every size has local NVMe disks (EC2 instance types, DescribeInstanceTypes.InstanceStorageSupported);
# a `d` after the generation (c6id, m5d) says the same in the name.
_NVME_FAMILIES = frozenset({"g4dn", "g5", "g6", "g6e", "g7e", "gr6", "p4d", "p4de", "p5", "p5e", "p5en", "p6", "trn1"})


def has_local_nvme(instance_type: str) -> bool:
    """Tell whether `ml.<family>.<size>` has instance-store disks.

    CreateEndpointConfig refuses a KmsKeyId on those (API reference, *KmsKeyId*): the hardware encrypts them with a
    key of its own.
    """
    family = instance_type.split(".")[1]
    generation = family.rstrip("abcdefghijklmnopqrstuvwxyz")
    return family in _NVME_FAMILIES or "d" in family[len(generation) :]
