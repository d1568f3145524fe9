"""What the guide forbids: another instance type of a variant that Application Auto Scaling holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.aws_json import ValidationError
from local.sagemaker.control import ControlPlane
from local.sagemaker.store import Store
from local.settings import LocalSettings

SCALED = "endpoint/e/variant/a"


class Fleets:
    """Notes what is deployed; nothing runs."""

    def __init__(self) -> None:
        self.deployed: list[str] = []

    def refuse_in_progress(self, _name: str) -> None:
        """Let everything pass."""

    def deploy(self, _name: str, deployment: dict[str, Any], *, status: str) -> None:
        self.deployed.append(f"{deployment['config']['EndpointConfigName']} {status}")


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
    store.endpoints["e"] = {"EndpointName": "e", "EndpointArn": "arn", "ProductionVariants": []}
    store.deployed["e"] = {"config": store.configs["old"]}
    fleets = Fleets()
    plane = ControlPlane(store, fleets, scaled=lambda resource: resource in scaled)  # type: ignore[arg-type]
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
    assert update(tmp_path, scaled=scaled, a="ml.c6i.xlarge", b="ml.c6i.large") == ["new Updating"]


def test_a_scaled_variant_may_take_another_model(tmp_path: Path) -> None:
    assert update(tmp_path, scaled={SCALED}, a="ml.c6i.large", b="ml.c6i.large") == ["new Updating"]
