"""Whoever waits for a fleet learns its end: DescribeEndpoint has no status for one that never comes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from local.faults import Faults
from local.sagemaker.archives import Archives
from local.sagemaker.options import Options
from local.sagemaker.provisioning import Provisioner
from serving.errors import EndpointError


class Broken:
    """Archives that fail as nobody expects."""

    def fetch(self, uri: str) -> None:
        raise RuntimeError(uri)


def test_a_failure_that_nobody_expected_is_an_internal_one_and_is_told(tmp_path: Any) -> None:
    provisioner = Provisioner(
        archives=cast("Archives", Broken()),
        servers=cast("Any", type("None_", (), {"release": staticmethod(lambda _held: asyncio.sleep(0))})),
        options=Options(),
        faults=Faults(tmp_path),
    )
    deployment = {
        "config": {"ProductionVariants": [{"VariantName": "a"}]},
        "containers": {"a": {"ModelDataUrl": "s3://b/k"}},
        "archives": {},
    }
    with pytest.raises(EndpointError, match=r"^Request to service failed\."):
        asyncio.run(provisioner.bring_up(deployment, wait=True, endpoint="e"))
