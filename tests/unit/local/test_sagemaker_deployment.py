from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.deployment import apply_changes, capture_summary, describe_variants, new_deployment, retain, settle
from local.sagemaker.listing import Listing, page

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


def endpoint(**now: tuple[float, int]) -> dict[str, Any]:
    deployment = new_deployment(config(**now), MODELS)
    return {"ProductionVariants": describe_variants(deployment, now=1.0)}


def test_a_new_deployment_takes_the_initial_values_and_defaults_of_1() -> None:
    variants = [
        {"VariantName": "a", "ModelName": "m", "InitialVariantWeight": 0, "InitialInstanceCount": 3},
        {"VariantName": "b", "ModelName": "n"},
    ]
    deployment = new_deployment({"EndpointConfigName": "c", "ProductionVariants": variants}, MODELS)
    assert deployment["weights"] == {"a": 0, "b": 1.0}
    assert deployment["counts"] == {"a": 3, "b": 1}
    assert deployment["containers"]["b"]["Image"] == "j"


@pytest.mark.parametrize(
    ("exclude", "weights", "counts"),
    [
        ([], {"a": 5, "c": 1}, {"a": 7, "c": 1}),
        ([WEIGHT], {"a": 1, "c": 1}, {"a": 7, "c": 1}),
        ([COUNT], {"a": 5, "c": 1}, {"a": 1, "c": 1}),
        ([WEIGHT, COUNT], {"a": 1, "c": 1}, {"a": 1, "c": 1}),
    ],
)
def test_retained_properties_are_those_of_variants_with_the_same_name(
    exclude: list[dict[str, str]], weights: dict[str, float], counts: dict[str, int]
) -> None:
    deployment = new_deployment(config(a=(1, 1), c=(1, 1)), MODELS)
    retain(deployment, endpoint(a=(5, 7), gone=(2, 2)), exclude=exclude)
    assert (deployment["weights"], deployment["counts"]) == (weights, counts)


@given(
    weight=st.none() | st.floats(0, 100),
    count=st.none() | st.integers(0, 9),
)
def test_a_change_touches_what_it_names_and_settles_into_current(weight: float | None, count: int | None) -> None:
    described = endpoint(a=(1, 1), b=(2, 2))
    change: dict[str, Any] = {"VariantName": "b"}
    change |= {"DesiredWeight": weight} if weight is not None else {}
    change |= {"DesiredInstanceCount": count} if count is not None else {}
    apply_changes(described, [change])
    a, b = described["ProductionVariants"]
    assert (b["CurrentWeight"], b["CurrentInstanceCount"]) == (2, 2)
    settle(described)
    assert (a["CurrentWeight"], a["CurrentInstanceCount"]) == (1, 1)
    assert b["CurrentWeight"] == (2 if weight is None else weight)
    assert b["CurrentInstanceCount"] == (2 if count is None else count)


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
