"""Functions of the local stack act as their own roles: what a role's policies do not allow is refused as AWS does."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

ACCOUNT = "123456789012"
CALLER = """
import boto3
import botocore.exceptions

def handler(event, _context):
    service, operation, parameters = event
    try:
        getattr(boto3.client(service), operation)(**parameters)
    except botocore.exceptions.ClientError as error:
        answer = error.response
        return {**answer["Error"], "Status": answer["ResponseMetadata"]["HTTPStatusCode"]}
    return {"Code": "OK"}
"""
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:us-east-1:{ACCOUNT}:{resource}"


@pytest.fixture(name="caller", scope="module")
def caller_fixture(aws: Any) -> Any:
    """Give a function that makes the call it is told, and a way to set what its role may do."""
    aws.function("caller", aws.role("caller-role", EVERYTHING), CALLER)
    aws.client("s3").create_bucket(Bucket="registry")
    aws.client("s3").put_object(Bucket="registry", Key="models/ranker/v1", Body=b"x")
    aws.client("dynamodb").create_table(
        TableName="state",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    aws.client("sns").create_topic(Name="alerts")
    aws.client("sqs").create_queue(QueueName="failures")
    aws.client("kinesis").create_stream(StreamName="events", ShardCount=1)
    aws.client("ssm").put_parameter(Name="/streamhub/limit", Value="1", Type="String")
    aws.client("secretsmanager").create_secret(Name="token", SecretString="t")

    def call(*statements: dict[str, Any], call: list[Any]) -> dict[str, Any]:
        aws.allow("caller-role", *statements)
        answer: dict[str, Any] = aws.invoke("caller", call)
        return answer

    return call


GET_ITEM = {"TableName": "state", "Key": {"pk": {"S": "a"}}}
METRIC = {"Namespace": "StreamHub/Inference", "MetricData": [{"MetricName": "m", "Value": 1.0}]}
OBJECT = {"Bucket": "registry", "Key": "models/ranker/v1"}
CALLS = {
    "s3 read": (["s3", "get_object", OBJECT], "s3:GetObject", "arn:aws:s3:::registry/models/ranker/v1"),
    "s3 write": (["s3", "put_object", {**OBJECT, "Key": "b"}], "s3:PutObject", "arn:aws:s3:::registry/b"),
    "s3 list": (["s3", "list_objects_v2", {"Bucket": "registry"}], "s3:ListBucket", "arn:aws:s3:::registry"),
    "dynamodb": (["dynamodb", "get_item", GET_ITEM], "dynamodb:GetItem", arn("dynamodb", "table/state")),
    "cloudwatch": (["cloudwatch", "put_metric_data", METRIC], "cloudwatch:PutMetricData", "*"),
    "sns": (
        ["sns", "publish", {"TopicArn": arn("sns", "alerts"), "Message": "m"}],
        "sns:Publish",
        arn("sns", "alerts"),
    ),
    "kinesis": (
        ["kinesis", "put_record", {"StreamName": "events", "Data": "x", "PartitionKey": "p"}],
        "kinesis:PutRecord",
        arn("kinesis", "stream/events"),
    ),
    "ssm": (
        ["ssm", "get_parameter", {"Name": "/streamhub/limit"}],
        "ssm:GetParameter",
        arn("ssm", "parameter/streamhub/limit"),
    ),
    "secrets": (
        ["secretsmanager", "get_secret_value", {"SecretId": "token"}],
        "secretsmanager:GetSecretValue",
        arn("secretsmanager", "secret:token-??????"),
    ),
    "sagemaker": (
        ["sagemaker", "describe_endpoint", {"EndpointName": "ranker"}],
        "sagemaker:DescribeEndpoint",
        arn("sagemaker", "endpoint/ranker"),
    ),
    "sagemaker-runtime": (
        ["sagemaker-runtime", "invoke_endpoint", {"EndpointName": "ranker", "Body": "{}"}],
        "sagemaker:InvokeEndpoint",
        arn("sagemaker", "endpoint/ranker"),
    ),
    "application-autoscaling": (
        ["application-autoscaling", "describe_scalable_targets", {"ServiceNamespace": "sagemaker"}],
        "application-autoscaling:DescribeScalableTargets",
        "*",
    ),
}
CODES = {"sns": ("AuthorizationError", 403), "s3 read": ("AccessDenied", 403), "cloudwatch": ("AccessDenied", 400)}
STATUS = {"sagemaker-runtime": 403}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_needs_its_action_on_its_resource(caller: Any, name: str) -> None:
    call, action, resource = CALLS[name]
    refused = caller({"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}, call=call)
    where = "" if resource == "*" else f" on resource: {resource}"
    where = f' on resource: "{resource}"' if action.startswith("s3:") else where
    assert refused["Message"] == (
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/caller-role/caller is not authorized to perform: {action}{where} "
        f"because no identity-based policy allows the {action} action"
    )
    family = "s3 read" if action.startswith("s3:") else name
    code, status = CODES.get(family, ("AccessDeniedException", STATUS.get(name, 400)))
    assert (refused["Code"], refused["Status"]) == (code, status)
    allowed = caller({"Effect": "Allow", "Action": action, "Resource": resource}, call=call)
    assert allowed.get("Code") == "OK" or "not authorized" not in allowed["Message"], allowed
    denied = caller(EVERYTHING, {"Effect": "Deny", "Action": action, "Resource": resource}, call=call)
    assert denied["Message"].endswith(" with an explicit deny in an identity-based policy")


def test_a_condition_on_what_the_request_says_is_held_to(caller: Any) -> None:
    only = {"Effect": "Allow", "Action": "cloudwatch:PutMetricData", "Resource": "*"}
    ours = {**only, "Condition": {"StringEquals": {"cloudwatch:namespace": "StreamHub/Inference"}}}
    assert caller(ours, call=["cloudwatch", "put_metric_data", METRIC])["Code"] == "OK"
    other = {**METRIC, "Namespace": "Other"}
    assert caller(ours, call=["cloudwatch", "put_metric_data", other])["Code"] == "AccessDenied"


def test_a_listing_is_held_to_its_prefix(caller: Any) -> None:
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::registry"}
    own = {**listing, "Condition": {"StringLikeIfExists": {"s3:prefix": ["models/ranker", "models/ranker/*"]}}}
    call = ["s3", "list_objects_v2", {"Bucket": "registry", "Prefix": "models/ranker/"}]
    assert caller(own, call=call)["Code"] == "OK"
    call = ["s3", "list_objects_v2", {"Bucket": "registry", "Prefix": "models/other/"}]
    assert caller(own, call=call)["Code"] == "AccessDenied"


def test_who_may_not_list_a_bucket_is_not_told_that_an_object_is_absent(caller: Any) -> None:
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    call = ["s3", "get_object", {"Bucket": "registry", "Key": "absent"}]
    refused = caller(reads, call=call)
    assert refused["Code"] == "AccessDenied"
    assert "s3:ListBucket" in refused["Message"]
    lists = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
    assert caller(reads, lists, call=call)["Code"] == "NoSuchKey"


def test_a_transaction_needs_each_of_its_items(caller: Any) -> None:
    items = [
        {"Put": {"TableName": "state", "Item": {"pk": {"S": "a"}}}},
        {"Delete": {"TableName": "state", "Key": {"pk": {"S": "b"}}}},
    ]
    call = ["dynamodb", "transact_write_items", {"TransactItems": items}]
    puts = {"Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "*"}
    assert "dynamodb:DeleteItem" in caller(puts, call=call)["Message"]
    assert caller({**puts, "Action": ["dynamodb:PutItem", "dynamodb:DeleteItem"]}, call=call)["Code"] == "OK"


def test_managed_policies_and_the_boundary_count(aws: Any, caller: Any) -> None:
    iam = aws.client("iam")
    call = ["dynamodb", "get_item", GET_ITEM]
    reads = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "dynamodb:Get*", "Resource": "*"}]}
    nothing = {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}
    policy = iam.create_policy(PolicyName="reads", PolicyDocument=json.dumps(reads))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="caller-role", PolicyArn=policy)
    assert caller(nothing, call=call)["Code"] == "OK"
    iam.detach_role_policy(RoleName="caller-role", PolicyArn=policy)
    assert caller(nothing, call=call)["Code"] == "AccessDeniedException"
    iam.put_role_permissions_boundary(RoleName="caller-role", PermissionsBoundary=policy)
    try:
        assert caller(EVERYTHING, call=call)["Code"] == "OK"
        refused = caller(EVERYTHING, call=["dynamodb", "scan", {"TableName": "state"}])
        assert refused["Message"].endswith("because no permissions boundary allows the dynamodb:Scan action")
    finally:
        iam.delete_role_permissions_boundary(RoleName="caller-role")


def test_everybody_may_ask_who_he_is_and_is_told_his_session(aws: Any, caller: Any) -> None:
    assert (
        caller({"Effect": "Deny", "Action": "*", "Resource": "*"}, call=["sts", "get_caller_identity", {}])["Code"]
        == "OK"
    )
    keys = boto3.Session("test", "test", region_name="us-east-1")
    assert keys.client("sts", endpoint_url=aws.url).get_caller_identity()["Account"] == ACCOUNT


def test_a_function_of_a_role_that_does_not_exist_may_nothing(aws: Any) -> None:
    aws.function("orphan", f"arn:aws:iam::{ACCOUNT}:role/none", CALLER)
    refused = aws.invoke("orphan", ["s3", "list_buckets", {}])
    assert (refused["Code"], "s3:ListAllMyBuckets" in refused["Message"]) == ("AccessDenied", True)


def test_an_action_that_the_stack_cannot_place_needs_every_resource(caller: Any) -> None:
    call = ["events", "put_events", {"Entries": [{"Source": "s", "DetailType": "t", "Detail": "{}"}]}]
    narrow = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": arn("events", "event-bus/default")}
    assert caller(narrow, call=call)["Code"] == "AccessDeniedException"
    assert caller({**narrow, "Resource": "*"}, call=call)["Code"] == "OK"
