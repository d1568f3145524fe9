"""What TorchServe's worker names of torch when no tensor is sent: types to compare with."""

from __future__ import annotations


class Tensor:
    """No value is one."""
