"""What SageMaker's instance types allow, as far as a template needs to know it."""

from serving.spec.instances import has_local_nvme

__all__ = ["has_local_nvme"]
