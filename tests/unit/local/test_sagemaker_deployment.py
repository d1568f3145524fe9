from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws_json import ValidationError
from local.sagemaker.deployment import capture_summary, describe, initial_variants, new_deployment, retained
from local.sagemaker.endpoint import Fleet, Variant
from local.sagemaker.listing import Listing, page
from local.sagemaker.transitions import Created, create

MODELS: dict[str, Any] = {
    "m": {"PrimaryContainer": {"Image": "i", "ModelDataUrl": "s3://b/k"}},
    "n": {"Containers": [{"Image": "j", "ModelDataUrl": "s3://b/l"}]},
}
WEIGHT, COUNT = {"VariantPropertyType": "DesiredWeight"}, {"VariantPropertyType": "DesiredInstanceCount"}


def config(**initial: tuple[float, int]) -> dict[str, Any]:
    return {
        "EndpointConfigName": "c",
        "ProductionVariants": [
            {"VariantName": name, "ModelName": "m", "InitialVariantWeight": weight, "InitialInstanceCount": count}
            for name, (weight, count) in initial.items()
        ],
    }


def weights(variants: Iterable[Variant]) -> dict[str, float]:
    return {variant.name: variant.weight for variant in variants}


def counts(variants: Iterable[Variant]) -> dict[str, int]:
    return {variant.name: variant.count for variant in variants}


def test_a_new_deployment_takes_the_initial_values_and_defaults_of_1() -> None:
    variants = [
        {"VariantName": "a", "ModelName": "m", "InitialVariantWeight": 0, "InitialInstanceCount": 3},
        {"VariantName": "b", "ModelName": "n"},
    ]
    made = {"EndpointConfigName": "c", "ProductionVariants": variants}
    assert weights(initial_variants(made)) == {"a": 0, "b": 1.0}
    assert counts(initial_variants(made)) == {"a": 3, "b": 1}
    assert new_deployment(made, MODELS, now=1.0)["containers"]["b"]["Image"] == "j"


@pytest.mark.parametrize(
    ("exclude", "kept_weights", "kept_counts"),
    [
        ([], {"a": 5, "c": 1}, {"a": 7, "c": 1}),
        ([WEIGHT], {"a": 1, "c": 1}, {"a": 7, "c": 1}),
        ([COUNT], {"a": 5, "c": 1}, {"a": 1, "c": 1}),
        ([WEIGHT, COUNT], {"a": 1, "c": 1}, {"a": 1, "c": 1}),
    ],
)
def test_retained_properties_are_those_of_variants_with_the_same_name(
    exclude: list[dict[str, str]], kept_weights: dict[str, float], kept_counts: dict[str, int]
) -> None:
    before = Fleet(number=1, config="c", variants=initial_variants(config(a=(5, 7), gone=(2, 2))))
    variants = retained(initial_variants(config(a=(1, 1), c=(1, 1))), before, exclude=exclude)
    assert (weights(variants), counts(variants)) == (kept_weights, kept_counts)


def test_a_capture_that_is_off_is_described_as_stopped() -> None:
    summary = capture_summary({"InitialSamplingPercentage": 5, "DestinationS3Uri": "s3://b"})
    assert summary is not None
    assert (summary["EnableCapture"], summary["CaptureStatus"]) == (False, "Stopped")
    assert capture_summary(None) is None


LISTING = Listing("Endpoints", ("EndpointName", "EndpointStatus"), name="EndpointName")


@given(
    names=st.sets(st.text("abc", min_size=1, max_size=4)),
    size=st.integers(1, 5),
    order=st.sampled_from(["Ascending", "Descending"]),
)
def test_pages_together_are_the_whole_list_once_and_in_order(names: set[str], size: int, order: str) -> None:
    documents = {
        name: {"EndpointName": name, "EndpointStatus": "InService", "CreationTime": float(place)}
        for place, name in enumerate(names)
    }
    call: dict[str, Any] = {"MaxResults": size, "SortBy": "Name", "SortOrder": order}
    found: list[str] = []
    while True:
        answer = page(LISTING, documents, call)
        assert len(answer["Endpoints"]) <= size
        found += [entry["EndpointName"] for entry in answer["Endpoints"]]
        if "NextToken" not in answer:
            break
        call["NextToken"] = answer["NextToken"]
    assert found == sorted(names, reverse=order == "Descending")


def test_a_list_is_filtered_by_status_and_part_of_the_name() -> None:
    documents = {
        name: {"EndpointName": name, "EndpointStatus": status, "CreationTime": 1.0}
        for name, status in (("ranker-a", "InService"), ("ranker-b", "Failed"), ("scorer", "InService"))
    }
    found = page(LISTING, documents, {"NameContains": "RANK", "StatusEquals": "InService"})
    assert [entry["EndpointName"] for entry in found["Endpoints"]] == ["ranker-a"]


@pytest.mark.parametrize("time", ["CreationTime", "LastModifiedTime"])
def test_a_list_is_filtered_by_each_of_its_times(time: str) -> None:
    """API ListEndpoints: modified, or created, before and after the specified timestamp."""
    documents = {
        f"e{at}": {"EndpointName": f"e{at}", "CreationTime": 0.0, "LastModifiedTime": 0.0} | {time: float(at)}
        for at in range(1, 6)
    }
    found = page(LISTING, documents, {f"{time}After": 1.0, f"{time}Before": 4.0, "SortBy": "Name"})
    assert [entry["EndpointName"] for entry in found["Endpoints"]] == ["e3", "e2"]


def test_a_new_endpoint_tells_of_the_deployment_it_is_made_by() -> None:
    """API DescribeEndpoint, PendingDeploymentSummary: "when the endpoint is creating or updating"."""
    made = config(a=(1, 1)) | {"EndpointConfigName": "first"}
    endpoint, _ = create(Created(name="e", config="first", variants=initial_variants(made)), now=5.0)
    described = describe(endpoint, {1: new_deployment(made, MODELS, now=5.0)}, arn="arn", policy=None)
    assert described["EndpointStatus"] == "Creating"
    pending = described["PendingDeploymentSummary"]
    assert (pending["EndpointConfigName"], pending["StartTime"]) == ("first", 5.0)
    assert [variant["VariantName"] for variant in pending["ProductionVariants"]] == ["a"]


@pytest.mark.parametrize("token", ["", "!", "LTU=", "MA==", "eA=="], ids=["none", "not base64", "-5", "0", "x"])
def test_a_token_that_no_answer_gave_is_refused(token: str) -> None:
    with pytest.raises(ValidationError, match=r"^Invalid pagination token\.$"):
        page(LISTING, {}, {"NextToken": token})
