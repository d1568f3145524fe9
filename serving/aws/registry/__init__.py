"""The model registry in S3: versions that never change, aliases that move by compare-and-set (docs/registry.md)."""

from serving.aws.registry.content import Transfer
from serving.aws.registry.registry import S3ModelRegistry, connect

__all__ = ["S3ModelRegistry", "Transfer", "connect"]
