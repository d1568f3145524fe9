"""boto3's own waiters and paginators, all of SageMaker's that touch endpoints."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import WaiterError

SOON = {"Delay": 0.02, "MaxAttempts": 1500}


@pytest.fixture(scope="module", name="many")
def many_fixture(shared: Any) -> dict[str, list[str]]:
    """Give names by operation: more of models and configs than a page of ten, some endpoints."""
    model = shared.model(shared.archive("v2"))
    variant = {"VariantName": "a", "ModelName": model, "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    names = [f"many-{number:02}" for number in range(12)]
    for name in names:
        shared.sm.create_model(ModelName=name, PrimaryContainer={"Image": "i", "ModelDataUrl": "s3://models/none"})
        shared.sm.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    for name in names[:3]:
        shared.sm.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return {"list_models": names, "list_endpoint_configs": names, "list_endpoints": names[:3]}


@pytest.mark.parametrize(
    ("operation", "key", "field"),
    [
        ("list_models", "Models", "ModelName"),
        ("list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"),
        ("list_endpoints", "Endpoints", "EndpointName"),
    ],
    ids=["models", "configs", "endpoints"],
)
def test_a_paginator_gives_each_once_whatever_the_size_of_a_page(
    shared: Any, many: dict[str, list[str]], operation: str, key: str, field: str
) -> None:
    paginator, expected = shared.sm.get_paginator(operation), many[operation]
    for size in (1, 5, 10, 100):
        pages = list(paginator.paginate(NameContains="many-", PaginationConfig={"PageSize": size}))
        names = [found[field] for page in pages for found in page[key]]
        assert sorted(names) == expected
        assert max(len(page[key]) for page in pages) <= size
        assert len(pages) == -(-len(names) // size)
    assert len(paginator.paginate(NameContains="many-").build_full_result()[key]) == len(expected)


def test_components_and_tags_are_paged_too(shared: Any) -> None:
    variant = {"VariantName": "fleet", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    role = "arn:aws:iam::123456789012:role/any-role"
    shared.sm.create_endpoint_config(EndpointConfigName="host", ProductionVariants=[variant], ExecutionRoleArn=role)
    shared.endpoint_named("host", "host")
    container = {"Image": "i", "ArtifactUrl": shared.archive("v2")}
    for number in range(3):
        shared.sm.create_inference_component(
            InferenceComponentName=f"part-{number}",
            EndpointName="host",
            VariantName="fleet",
            Specification={"Container": container},
            RuntimeConfig={"CopyCount": 1},
        )
    pages = shared.sm.get_paginator("list_inference_components").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["InferenceComponents"]) for page in pages] == [2, 1]
    arn = shared.sm.describe_endpoint(EndpointName="host")["EndpointArn"]
    tags = [{"Key": f"k{number}", "Value": "v"} for number in range(50)]
    shared.sm.add_tags(ResourceArn=arn, Tags=tags)
    paginated = shared.sm.get_paginator("list_tags").paginate(ResourceArn=arn, PaginationConfig={"PageSize": 50})
    assert paginated.build_full_result()["Tags"] == tags


def test_a_waiter_ends_when_the_endpoint_is_in_service_or_deleted(shared: Any) -> None:
    config = shared.config({"a": shared.model(shared.archive("v2"))}, {"a": 1})
    shared.sm.create_endpoint(EndpointName="waited", EndpointConfigName=config)
    shared.sm.get_waiter("endpoint_in_service").wait(EndpointName="waited", WaiterConfig=SOON)
    assert shared.invoke("waited")[1]["answer"] == "v2"
    shared.sm.delete_endpoint(EndpointName="waited")
    shared.sm.get_waiter("endpoint_deleted").wait(EndpointName="waited", WaiterConfig=SOON)
    assert not shared.sm.list_endpoints(NameContains="waited")["Endpoints"]


def test_a_waiter_raises_when_the_endpoint_fails(shared: Any) -> None:
    config = shared.config({"a": shared.model(shared.archive("v2", fail="no such opset"))}, {"a": 1})
    shared.sm.create_endpoint(EndpointName="broken", EndpointConfigName=config)
    with pytest.raises(WaiterError, match="terminal failure state"):
        shared.sm.get_waiter("endpoint_in_service").wait(EndpointName="broken", WaiterConfig=SOON)
