"""What the guide forbids: another instance type of a variant that Application Auto Scaling holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.aws_json import ValidationError
from local.clock import ManualClock
from local.sagemaker.control import ControlPlane
from local.sagemaker.deployment import initial_variants
from local.sagemaker.endpoint import Endpoint, Fleet
from local.sagemaker.store import Store
from local.sagemaker.transitions import Updated
from local.settings import LocalSettings

SCALED = "endpoint/e/variant/a"


class Fleets:
    """Notes what is deployed; nothing runs."""

    def __init__(self) -> None:
        self.deployed: list[str] = []

    def refuse_in_progress(self, _name: str) -> None:
        """Let everything pass."""

    def update(self, _name: str, event: Updated, _deployment: dict[str, Any]) -> None:
        self.deployed.append(event.config)


def config(name: str, **types: str) -> dict[str, Any]:
    variants = [
        {"VariantName": variant, "ModelName": "m", "InstanceType": kind, "InitialInstanceCount": 1}
        for variant, kind in types.items()
    ]
    return {"EndpointConfigName": name, "ProductionVariants": variants}


def update(tmp_path: Path, *, scaled: set[str], **types: str) -> list[str]:
    store = Store(LocalSettings(state_dir=tmp_path, s3_endpoint_url="http://127.0.0.1:1"))
    store.models["m"] = {"ModelName": "m", "PrimaryContainer": {"Image": "i"}}
    store.configs |= {"old": config("old", a="ml.c6i.large", b="ml.c6i.large"), "new": config("new", **types)}
    fleet = Fleet(number=1, config="old", variants=initial_variants(store.configs["old"]))
    store.endpoints["e"] = Endpoint(name="e", config="old", status="InService", created=0, modified=0, fleet=fleet)
    store.deployments["e"] = {1: {"config": store.configs["old"]}}
    fleets = Fleets()
    plane = ControlPlane(
        store,
        fleets,  # type: ignore[arg-type]
        scaled=lambda resource: resource in scaled,
        clock=ManualClock(),
    )
    plane.update_endpoint({"EndpointName": "e", "EndpointConfigName": "new"})
    return fleets.deployed


@pytest.mark.parametrize(
    "types", [{"a": "ml.c6i.xlarge", "b": "ml.c6i.large"}, {"b": "ml.c6i.large"}], ids=["another type", "removed"]
)
def test_a_scaled_variant_keeps_its_instance_type(tmp_path: Path, types: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="variant a of endpoint e is registered as a scalable target"):
        update(tmp_path, scaled={SCALED}, **types)


@pytest.mark.parametrize("scaled", [set(), {"endpoint/e/variant/b"}, {"endpoint/another/variant/a"}])
def test_a_variant_that_is_not_scaled_may_take_another(tmp_path: Path, scaled: set[str]) -> None:
    assert update(tmp_path, scaled=scaled, a="ml.c6i.xlarge", b="ml.c6i.large") == ["new"]


def test_a_scaled_variant_may_take_another_model(tmp_path: Path) -> None:
    assert update(tmp_path, scaled={SCALED}, a="ml.c6i.large", b="ml.c6i.large") == ["new"]
