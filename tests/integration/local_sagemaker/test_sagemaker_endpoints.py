from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from botocore.exceptions import ClientError

from local.aws_json import service_model


def refusal(call: Callable[..., Any], **arguments: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def weights(described: dict[str, Any], which: str = "CurrentWeight") -> dict[str, float]:
    return {variant["VariantName"]: variant[which] for variant in described["ProductionVariants"]}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_model_becomes_an_endpoint_that_answers_plain_boto3(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"), MARK="7")}, {"a": 1}))
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    variant, answer = aws.invoke(endpoint, {"x": 1})
    assert described["EndpointStatus"] == "InService"
    assert described["ResponseMetadata"]["RequestId"]
    assert described["EndpointArn"] == f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{endpoint}"
    assert (variant, answer["answer"], answer["mark"]) == ("a", "v2", "7")


def test_an_archive_may_be_given_as_a_model_data_source(aws: Any) -> None:
    source = {"S3DataSource": {"S3Uri": aws.archive("v9"), "S3DataType": "S3Object", "CompressionType": "Gzip"}}
    aws.sm.create_model(ModelName="sourced", PrimaryContainer={"Image": "i", "ModelDataSource": source})
    endpoint = aws.endpoint(aws.config({"a": "sourced"}, {"a": 1}))
    assert aws.invoke(endpoint)[1]["answer"] == "v9"


def test_traffic_follows_weights_and_a_target_overrides_them(aws: Any) -> None:
    models = {"a": aws.model(aws.archive("v2")), "b": aws.model(aws.archive("v3"))}
    endpoint = aws.endpoint(aws.config(models, {"a": 9, "b": 1}))
    chosen = [aws.invoke(endpoint)[0] for _ in range(200)]
    # 20 expected; 3.9 standard deviations each way
    assert 4 <= chosen.count("b") <= 36
    assert aws.invoke(endpoint, TargetVariant="b")[0] == "b"


def test_new_weights_pass_through_updating_and_count_when_it_is_in_service_again(aws: Any) -> None:
    models = {"a": aws.model(aws.archive("v2")), "b": aws.model(aws.archive("v3"))}
    endpoint = aws.endpoint(aws.config(models, {"a": 1, "b": 0}))
    aws.sm.update_endpoint_weights_and_capacities(
        EndpointName=endpoint,
        DesiredWeightsAndCapacities=[
            {"VariantName": "a", "DesiredWeight": 0},
            {"VariantName": "b", "DesiredWeight": 1, "DesiredInstanceCount": 3},
        ],
    )
    meanwhile = aws.sm.describe_endpoint(EndpointName=endpoint)
    busy = refusal(
        aws.sm.update_endpoint_weights_and_capacities,
        EndpointName=endpoint,
        DesiredWeightsAndCapacities=[{"VariantName": "a", "DesiredWeight": 5}],
    )
    after = aws.settled(endpoint)
    assert meanwhile["EndpointStatus"] == "Updating"
    assert weights(meanwhile) == {"a": 1, "b": 0}
    assert weights(meanwhile, "DesiredWeight") == {"a": 0, "b": 1}
    assert busy == ("ValidationException", f'Cannot update in-progress endpoint "{after["EndpointArn"]}".')
    assert weights(after) == {"a": 0, "b": 1}
    assert [variant["CurrentInstanceCount"] for variant in after["ProductionVariants"]] == [1, 3]
    assert {aws.invoke(endpoint)[0] for _ in range(10)} == {"b"}
    assert aws.invoke(endpoint, TargetVariant="a")[0] == "a"


@pytest.mark.parametrize(
    ("retain", "expected_weights", "expected_counts"),
    [
        ({}, {"a": 1, "b": 0}, [1, 1]),
        ({"RetainAllVariantProperties": True}, {"a": 3, "b": 7}, [1, 4]),
        (
            {
                "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}],
            },
            {"a": 1, "b": 0},
            [1, 4],
        ),
    ],
    ids=["reset", "retained", "retained but weights"],
)
def test_an_update_keeps_weights_and_counts_only_when_told_to(
    aws: Any, retain: dict[str, Any], expected_weights: dict[str, float], expected_counts: list[int]
) -> None:
    v2, v3 = aws.model(aws.archive("v2")), aws.model(aws.archive("v3"))
    endpoint = aws.endpoint(aws.config({"a": v2, "b": v2}, {"a": 1, "b": 0}))
    aws.sm.update_endpoint_weights_and_capacities(
        EndpointName=endpoint,
        DesiredWeightsAndCapacities=[
            {"VariantName": "a", "DesiredWeight": 3},
            {"VariantName": "b", "DesiredWeight": 7, "DesiredInstanceCount": 4},
        ],
    )
    aws.settled(endpoint)
    config = aws.config({"a": v2, "b": v3}, {"a": 1, "b": 0})
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config, **retain)
    described = aws.settled(endpoint)
    assert described["EndpointConfigName"] == config
    assert weights(described) == expected_weights
    assert [variant["CurrentInstanceCount"] for variant in described["ProductionVariants"]] == expected_counts
    assert aws.invoke(endpoint, TargetVariant="b")[1]["answer"] == "v3"


def test_a_slow_request_is_answered_by_the_process_that_an_update_retires(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    with ThreadPoolExecutor(1) as caller:
        slow = caller.submit(aws.invoke, endpoint, {"sleep_s": 4})  # far longer than old processes linger
        config = aws.config({"a": aws.model(aws.archive("v3"))}, {"a": 1})
        aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config)
        assert aws.settled(endpoint)["EndpointConfigName"] == config
        assert aws.invoke(endpoint)[1]["answer"] == "v3"
        assert slow.result(60)[1]["answer"] == "v2"


def test_no_request_fails_while_an_endpoint_moves_to_another_config(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    config = aws.config({"a": aws.model(aws.archive("v3"))}, {"a": 1})
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config)
    pending = aws.sm.describe_endpoint(EndpointName=endpoint)["PendingDeploymentSummary"]
    answers = []
    while aws.sm.describe_endpoint(EndpointName=endpoint)["EndpointStatus"] == "Updating":
        answers.append(aws.invoke(endpoint)[1]["answer"])
    # the old answers until the move, then the new ones; never a mixture
    assert answers == sorted(answers)
    assert answers[0] == "v2"
    assert pending["EndpointConfigName"] == config
    assert aws.invoke(endpoint)[1]["answer"] == "v3"


def test_callers_notice_nothing_of_new_weights_and_configs(aws: Any) -> None:
    models = {version: aws.model(aws.archive(version)) for version in ("v1", "v2", "v3")}
    endpoint = aws.endpoint(aws.config({"a": models["v1"], "b": models["v1"]}, {"a": 1, "b": 1}))
    done = threading.Event()

    def call() -> list[str]:
        answers = []
        while not done.is_set():
            answers.append(aws.invoke(endpoint)[1]["answer"])
        return answers

    with ThreadPoolExecutor(8) as pool:
        callers = [pool.submit(call) for _ in range(8)]
        try:
            for version, weight in (("v2", 0), ("v3", 2)):
                config = aws.config({"a": models[version], "b": models[version]}, {"a": 1, "b": 1})
                aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config)
                aws.settled(endpoint)
                change = [{"VariantName": "b", "DesiredWeight": weight}]
                aws.sm.update_endpoint_weights_and_capacities(EndpointName=endpoint, DesiredWeightsAndCapacities=change)
                aws.settled(endpoint)
        finally:
            done.set()
        seen = [answer for caller in callers for answer in caller.result(30)]
    assert set(seen) == {"v1", "v2", "v3"}


def test_variants_with_the_same_bytes_share_a_process_and_other_environments_do_not(aws: Any) -> None:
    uri = aws.archive("v2")
    plain, copy, marked = aws.model(uri), aws.model(uri), aws.model(uri, MARK="1")
    endpoint = aws.endpoint(aws.config({"a": plain, "b": copy, "c": marked}, {"a": 1, "b": 1, "c": 1}))
    pid = {name: aws.invoke(endpoint, TargetVariant=name)[1]["pid"] for name in "abc"}
    assert pid["a"] == pid["b"] != pid["c"]


def test_a_deleted_endpoint_is_gone_and_its_process_ends(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    pid = aws.invoke(endpoint)[1]["pid"]
    assert alive(pid)
    aws.sm.delete_endpoint(EndpointName=endpoint)
    assert aws.sm.describe_endpoint(EndpointName=endpoint)["EndpointStatus"] == "Deleting"
    assert refusal(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"")[0] == "ValidationError"
    aws.sm.get_waiter("endpoint_deleted").wait(EndpointName=endpoint, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    code, message = refusal(aws.sm.describe_endpoint, EndpointName=endpoint)
    assert (code, message.split(" ")[:4]) == ("ValidationException", ["Could", "not", "find", "endpoint"])
    deadline = time.monotonic() + 30
    while alive(pid) and time.monotonic() < deadline:
        os.sched_yield()
    assert not alive(pid)


def test_a_missing_archive_fails_the_endpoint_with_sagemakers_reason(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model("s3://models/none.tar.gz")}, {"a": 1}))
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    code, message = refusal(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"")
    assert described["EndpointStatus"] == "Failed"
    assert described["FailureReason"].startswith(
        'Failed to download model data for container "container_1" from URL: "s3://models/none.tar.gz".'
    )
    assert (code, message) == ("ValidationError", f"Endpoint {endpoint} of account 123456789012 not found.")


def test_a_model_server_that_refuses_its_archive_fails_the_endpoint_with_its_words(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2", fail="digest differs"))}, {"a": 1}))
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    assert described["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in described["FailureReason"]
    assert "digest differs" in described["FailureReason"]


def test_a_failed_update_leaves_the_endpoint_on_what_it_had(aws: Any) -> None:
    old = aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1})
    endpoint = aws.endpoint(old)
    broken = aws.config({"a": aws.model(aws.archive("v3", fail="no"))}, {"a": 1})
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=broken)
    described = aws.settled(endpoint)
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", old)
    assert "FailureReason" in described
    assert aws.invoke(endpoint)[1]["answer"] == "v2"


def test_a_process_that_dies_comes_back_and_waiting_requests_are_answered(aws: Any) -> None:
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    before = aws.invoke(endpoint)[1]["pid"]
    code, _ = refusal(
        aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b'{"die": true}', ContentType="application/json"
    )
    after = aws.invoke(endpoint)[1]["pid"]
    assert code == "ModelError"
    assert after != before


def test_a_restart_brings_back_endpoints_weights_and_tags(start: Any) -> None:
    with start() as aws:
        config = aws.config({"a": aws.model(aws.archive("v2")), "b": aws.model(aws.archive("v3"))}, {"a": 0, "b": 1})
        aws.sm.create_endpoint(EndpointName="lasting", EndpointConfigName=config, Tags=[{"Key": "team", "Value": "ml"}])
        before = aws.settled("lasting")
        pid = aws.invoke("lasting")[1]["pid"]
    assert not alive(pid)
    with start() as aws:
        after = aws.sm.describe_endpoint(EndpointName="lasting")
        variant, answer = aws.invoke("lasting")
        tags = aws.sm.list_tags(ResourceArn=after["EndpointArn"])["Tags"]
    assert (variant, answer["answer"]) == ("b", "v3")
    assert answer["pid"] != pid
    assert tags == [{"Key": "team", "Value": "ml"}]
    for transient in ("ResponseMetadata",):
        before.pop(transient)
        after.pop(transient)
    assert after == before


def test_an_update_that_a_restart_interrupted_is_finished_after_it(start: Any) -> None:
    with start() as aws:
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
        config = aws.config({"a": aws.model(aws.archive("v3"))}, {"a": 1})
        aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config)
    with start() as aws:
        assert aws.settled(endpoint)["EndpointConfigName"] == config
        assert aws.invoke(endpoint)[1]["answer"] == "v3"


def test_what_does_not_exist_or_exists_already_is_refused_in_sagemakers_words(aws: Any) -> None:
    prefix = "arn:aws:sagemaker:us-east-1:123456789012"
    model = aws.model(aws.archive("v2"))
    variant = {"VariantName": "a", "ModelName": "none", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    assert refusal(aws.sm.describe_model, ModelName="none") == (
        "ValidationException",
        f'Could not find model "{prefix}:model/none".',
    )
    assert refusal(aws.sm.create_model, ModelName=model, PrimaryContainer={"Image": "i"}) == (
        "ValidationException",
        f'Cannot create already existing model "{prefix}:model/{model}".',
    )
    assert refusal(aws.sm.create_endpoint_config, EndpointConfigName="c", ProductionVariants=[variant])[1] == (
        f'Could not find model "{prefix}:model/none".'
    )
    assert refusal(aws.sm.create_endpoint, EndpointName="e", EndpointConfigName="none")[1] == (
        f'Could not find endpoint configuration "{prefix}:endpoint-config/none".'
    )
    assert refusal(aws.sm.update_endpoint, EndpointName="e", EndpointConfigName="none")[1] == (
        f'Could not find endpoint "{prefix}:endpoint/e".'
    )


def test_lists_filter_sort_and_page(aws: Any) -> None:
    uri = aws.archive("v2")
    for name in ("list-b", "list-a", "list-c", "other"):
        aws.sm.create_model(ModelName=name, PrimaryContainer={"Image": "i", "ModelDataUrl": uri})
    pages = aws.sm.get_paginator("list_models").paginate(
        NameContains="list-", SortBy="Name", SortOrder="Ascending", PaginationConfig={"PageSize": 2}
    )
    found = [[model["ModelName"] for model in page["Models"]] for page in pages]
    newest = aws.sm.list_models(NameContains="list-")["Models"]
    assert found == [["list-a", "list-b"], ["list-c"]]
    assert newest[0]["ModelName"] == "list-c"


def test_tags_are_added_replaced_and_removed(aws: Any) -> None:
    aws.sm.create_model(ModelName="tagged", PrimaryContainer={"Image": "i"}, Tags=[{"Key": "k", "Value": "1"}])
    arn = aws.sm.describe_model(ModelName="tagged")["ModelArn"]
    aws.sm.add_tags(ResourceArn=arn, Tags=[{"Key": "k", "Value": "2"}, {"Key": "z", "Value": "3"}])
    assert aws.sm.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "2"}, {"Key": "z", "Value": "3"}]
    aws.sm.delete_tags(ResourceArn=arn, TagKeys=["k"])
    assert aws.sm.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "z", "Value": "3"}]
    aws.sm.delete_model(ModelName="tagged")
    assert refusal(aws.sm.list_tags, ResourceArn=arn)[0] == "ValidationException"


def test_an_operation_outside_the_local_stack_is_refused_by_name(aws: Any) -> None:
    assert "CreateTrainingJob" in service_model("sagemaker").operation_names
    code, message = refusal(aws.sm.list_training_jobs)
    assert code == "UnknownOperationException"
    assert "ListTrainingJobs" in message


def test_a_container_that_cannot_even_be_started_fails_the_endpoint_and_not_its_update(aws: Any) -> None:
    """EnvironmentValue takes any characters (botocore's model), also the one that ends a string (environ(7))."""
    unstartable = aws.config({"a": aws.model(aws.archive("v3"), MARK="\0")}, {"a": 1})
    assert aws.sm.describe_endpoint(EndpointName=aws.endpoint(unstartable))["EndpointStatus"] == "Failed"
    old = aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1})
    endpoint = aws.endpoint(old)
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=unstartable)
    described = aws.settled(endpoint)
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", old)
    assert "cannot be started" in described["FailureReason"]


def test_a_name_differs_from_a_taken_one_by_more_than_its_case_and_is_called_in_its_own(aws: Any) -> None:
    """API CreateEndpoint: case-insensitive there, preserved, and must be matched in InvokeEndpoint."""
    config = aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1})
    aws.endpoint_named("Named", config)
    refused = refusal(aws.sm.create_endpoint, EndpointName="nAMED", EndpointConfigName=config)
    assert refused[1].startswith("Cannot create already existing endpoint")
    assert aws.invoke("Named")[1]["answer"] == "v2"
    assert refusal(aws.runtime.invoke_endpoint, EndpointName="named", Body=b"")[0] == "ValidationError"


def test_a_model_has_one_container_however_little_is_said_of_it(aws: Any) -> None:
    """A container's fields are all optional (botocore's model), so an empty one is a model; it serves nothing."""
    aws.sm.create_model(ModelName="empty", PrimaryContainer={})
    endpoint = aws.endpoint(aws.config({"a": "empty"}, {"a": 1}))
    assert "names no archive" in aws.sm.describe_endpoint(EndpointName=endpoint)["FailureReason"]
    both = {"PrimaryContainer": {"Image": "i"}, "Containers": [{"Image": "i"}]}
    assert "got 2 containers" in refusal(aws.sm.create_model, ModelName="both", **both)[1]


def test_a_container_that_others_share_must_be_healthy_for_a_new_endpoint_too(start: Any) -> None:
    """API DescribeEndpoint: InService is available to process requests; guide: a container must pass its ping."""
    with start() as aws:
        model = aws.model(aws.archive("v2"))
        aws.endpoint_named("before", aws.config({"a": model}, {"a": 1}))
    broken = (sys.executable, "-c", "raise SystemExit('no such device')")
    with start(server_command=broken, startup_timeout_s=1) as aws:
        assert aws.settled("before")["EndpointStatus"] == "InService"
        described = aws.sm.describe_endpoint(EndpointName=aws.endpoint(aws.config({"a": model}, {"a": 1})))
        assert described["EndpointStatus"] == "Failed"
        assert "did not pass the ping health check" in described["FailureReason"]


def test_a_concurrency_that_nothing_here_has_is_refused_and_changes_no_weight(aws: Any) -> None:
    """API DesiredWeightAndCapacity: ServerlessUpdateConfig is of serverless variants, which are refused by name."""
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    before = aws.sm.describe_endpoint(EndpointName=endpoint)
    change = [{"VariantName": "a", "DesiredWeight": 3, "ServerlessUpdateConfig": {"MaxConcurrency": 2}}]
    call = {"EndpointName": endpoint, "DesiredWeightsAndCapacities": change}
    code, message = refusal(aws.sm.update_endpoint_weights_and_capacities, **call)
    assert (code, message.partition(":")[0]) == ("ValidationException", "ServerlessUpdateConfig")
    assert aws.sm.describe_endpoint(EndpointName=endpoint) == before | {"ResponseMetadata": ANY}
