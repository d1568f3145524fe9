"""From a request on the wire to what IAM is asked: by botocore's own requests, and by what no client would send."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import boto3
import orjson
import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st

from local.fault_gate import FaultGate
from local.faults import Faults, make
from local.operations import Operation, Request, needs_body, operation_of, request_of, signature_of
from local.permissions.caller import Caller, Policies
from local.permissions.calls import Place, calls_of
from local.permissions.gate import Gate
from local.permissions.policy import statements
from local.permissions.s3_calls import s3_needs

PLACE = Place("us-east-1", "123456789012")
CALLER = Caller(
    account=PLACE.account, role="role", session="f", function_arn="arn:aws:lambda:us-east-1:123456789012:function:f"
)


class SentError(Exception):
    """Keeps a request from the network."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        url = urlsplit(request.url)
        headers = [
            (name.encode(), value.encode() if isinstance(value, str) else value)
            for name, value in request.headers.items()
        ]
        self.scope = {
            "type": "http",
            "method": request.method,
            "path": url.path,
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "headers": headers,
        }
        body = request.body if request.body is not None else b""
        body = body.read() if hasattr(body, "read") else body
        self.body = body.encode() if isinstance(body, str) else bytes(body)


def sent(service: str, operation: str, **parameters: Any) -> SentError:
    keys = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    client: Any = boto3.client(service, endpoint_url="http://127.0.0.1:1", **keys)  # type: ignore[call-overload]

    def stop(request: Any, **_: Any) -> None:
        raise SentError(request)

    client.meta.events.register("before-send", stop)
    with pytest.raises(SentError) as caught:
        getattr(client, operation)(**parameters)
    return caught.value


def needed(service: str, operation: str, **parameters: Any) -> list[tuple[str, str]]:
    request = sent(service, operation, **parameters)
    signature = signature_of(request.scope)
    assert signature is not None
    assert (signature.access_key, signature.region) == ("AKIA", "us-east-1")
    told = request_of(request.scope)
    told = request_of(request.scope, request.body if needs_body(signature.service, told) else b"")
    found = operation_of(signature.service, told)
    assert found is not None
    return [
        (call.action, call.resource)
        for call in calls_of(found, told, PLACE, CALLER.context(region="us-east-1", now_s=0))
    ]


S3 = {"Bucket": "b", "Key": "a/b c+d"}
OBJECT = "arn:aws:s3:::b/a/b c+d"
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/t"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:f"
ENDPOINT = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/e"


@pytest.mark.parametrize(
    ("operation", "parameters", "expected"),
    [
        ("get_object", S3, [("s3:GetObject", OBJECT)]),
        ("get_object", {**S3, "VersionId": "v"}, [("s3:GetObjectVersion", OBJECT)]),
        ("head_object", S3, [("s3:GetObject", OBJECT)]),
        ("put_object", {**S3, "Body": b"x"}, [("s3:PutObject", OBJECT)]),
        ("upload_part", {**S3, "UploadId": "u", "PartNumber": 1, "Body": b"x"}, [("s3:PutObject", OBJECT)]),
        ("abort_multipart_upload", {**S3, "UploadId": "u"}, [("s3:AbortMultipartUpload", OBJECT)]),
        (
            "copy_object",
            {**S3, "CopySource": "c/k d"},
            [("s3:PutObject", OBJECT), ("s3:GetObject", "arn:aws:s3:::c/k d")],
        ),
        (
            "delete_objects",
            {"Bucket": "b", "Delete": {"Objects": [{"Key": "a&b"}, {"Key": "c"}]}},
            [("s3:DeleteObject", "arn:aws:s3:::b/a&b"), ("s3:DeleteObject", "arn:aws:s3:::b/c")],
        ),
        ("list_objects_v2", {"Bucket": "b", "Prefix": "a/"}, [("s3:ListBucket", "arn:aws:s3:::b")]),
        ("head_bucket", {"Bucket": "b"}, [("s3:ListBucket", "arn:aws:s3:::b")]),
        ("list_buckets", {}, [("s3:ListAllMyBuckets", "*")]),
        (
            "copy_object",
            {**S3, "CopySource": {"Bucket": "c", "Key": "k", "VersionId": "v"}},
            [("s3:PutObject", OBJECT), ("s3:GetObjectVersion", "arn:aws:s3:::c/k")],
        ),
        (
            "delete_objects",
            {"Bucket": "b", "Delete": {"Objects": [{"Key": "a", "VersionId": "v"}, {"Key": "c"}]}},
            [("s3:DeleteObjectVersion", "arn:aws:s3:::b/a"), ("s3:DeleteObject", "arn:aws:s3:::b/c")],
        ),
        (
            "delete_object",
            {**S3, "VersionId": "v", "BypassGovernanceRetention": True},
            [("s3:DeleteObjectVersion", OBJECT), ("s3:BypassGovernanceRetention", OBJECT)],
        ),
        (
            "put_object",
            {**S3, "Body": b"", "Tagging": "a=b", "ACL": "private", "ObjectLockLegalHoldStatus": "ON"},
            [
                ("s3:PutObject", OBJECT),
                ("s3:PutObjectAcl", OBJECT),
                ("s3:PutObjectTagging", OBJECT),
                ("s3:PutObjectLegalHold", OBJECT),
            ],
        ),
        (
            "put_object",
            {**S3, "Body": b"", "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": "2027-01-01T00:00:00Z"},
            [("s3:PutObject", OBJECT), ("s3:PutObjectRetention", OBJECT)],
        ),
        (
            "get_object_attributes",
            {**S3, "VersionId": "v", "ObjectAttributes": ["ETag"]},
            [("s3:GetObjectVersionAttributes", OBJECT), ("s3:GetObjectVersion", OBJECT)],
        ),
        ("delete_object_tagging", {**S3, "VersionId": "v"}, [("s3:DeleteObjectVersionTagging", OBJECT)]),
        ("get_object_tagging", S3, [("s3:GetObjectTagging", OBJECT)]),
    ],
)
def test_s3_needs_what_the_authorization_reference_says(
    operation: str, parameters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert needed("s3", operation, **parameters) == expected


def documented_actions() -> list[tuple[str, str]]:
    """Each operation on a bucket's settings for which S3's API reference, as botocore has it, names one action."""
    found = []
    model = Loader().load_service_model("s3", "service-2")
    for name, operation in model["operations"].items():
        named = {action for action in re.findall(r"s3:[A-Z]\w+", operation["documentation"]) if action not in EVENTS}
        if re.match(r"(Get|Put|Delete|List)(Bucket|PublicAccess)", name) and len(named) == 1:
            found.append((name, named.pop()))
    return sorted(found)


EVENTS = {"s3:ReducedRedundancyLostObject"}  # of a notification's example


@pytest.mark.parametrize(("operation", "action"), documented_actions())
def test_a_bucket_operation_needs_the_action_that_its_api_reference_names(operation: str, action: str) -> None:
    asked_for = Operation("s3", operation, {"Bucket": "b"})
    request = Request(method="GET", path="/b", query={}, headers={})
    [(needed_action, resource)] = s3_needs(asked_for, request)
    assert (needed_action.lower(), resource) == (action.lower(), "arn:aws:s3:::b")


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "expected"),
    [
        (
            "dynamodb",
            "query",
            {"TableName": "t", "IndexName": "idx", "KeyConditionExpression": "a = b"},
            [("dynamodb:Query", f"{TABLE}/index/idx")],
        ),
        ("dynamodb", "scan", {"TableName": TABLE}, [("dynamodb:Scan", TABLE)]),
        (
            "dynamodb",
            "batch_get_item",
            {"RequestItems": {"t": {"Keys": [{"a": {"S": "b"}}]}}},
            [("dynamodb:BatchGetItem", TABLE)],
        ),
        (
            "sagemaker-runtime",
            "invoke_endpoint",
            {"EndpointName": "e", "Body": b"{}"},
            [("sagemaker:InvokeEndpoint", ENDPOINT)],
        ),
        (
            "sagemaker-runtime",
            "invoke_endpoint",
            {"EndpointName": "e", "InferenceComponentName": "c", "Body": b"{}"},
            [
                ("sagemaker:InvokeEndpoint", ENDPOINT),
                ("sagemaker:InvokeEndpoint", ENDPOINT.replace("endpoint/e", "inference-component/c")),
            ],
        ),
        (
            "sagemaker",
            "update_endpoint",
            {"EndpointName": "E", "EndpointConfigName": "c"},
            [
                ("sagemaker:UpdateEndpoint", ENDPOINT),
                ("sagemaker:UpdateEndpoint", ENDPOINT.replace("endpoint/e", "endpoint-config/c")),
            ],
        ),
        (
            "application-autoscaling",
            "register_scalable_target",
            {
                "ServiceNamespace": "sagemaker",
                "ResourceId": "e",
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            },
            [
                (
                    "application-autoscaling:RegisterScalableTarget",
                    "arn:aws:application-autoscaling:us-east-1:123456789012:scalable-target/*",
                )
            ],
        ),
        (
            "cloudwatch",
            "describe_alarms",
            {"AlarmNames": ["x"]},
            [("cloudwatch:DescribeAlarms", "arn:aws:cloudwatch:us-east-1:123456789012:alarm:x")],
        ),
        (
            "sqs",
            "send_message",
            {"QueueUrl": "http://127.0.0.1:1/123456789012/q", "MessageBody": "m"},
            [("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:q")],
        ),
        (
            "lambda",
            "invoke",
            {"FunctionName": "f"},
            [("lambda:InvokeFunction", "arn:aws:lambda:us-east-1:123456789012:function:f")],
        ),
        (
            "kms",
            "encrypt",
            {"KeyId": "k", "Plaintext": b"x"},
            [("kms:Encrypt", "arn:aws:kms:us-east-1:123456789012:key/k")],
        ),
        ("sts", "get_caller_identity", {}, []),
        # SQS Developer Guide, batch actions: permissions are those of the single ones; SNS Developer Guide, the same
        *[
            (
                "sqs",
                f"{operation}_batch",
                {"QueueUrl": "http://127.0.0.1:1/123456789012/q", "Entries": [{"Id": "1", **entry}]},
                [(f"sqs:{action}", "arn:aws:sqs:us-east-1:123456789012:q")],
            )
            for operation, action, entry in [
                ("send_message", "SendMessage", {"MessageBody": "m"}),
                ("delete_message", "DeleteMessage", {"ReceiptHandle": "r"}),
                ("change_message_visibility", "ChangeMessageVisibility", {"ReceiptHandle": "r"}),
            ]
        ],
        (
            "sns",
            "publish_batch",
            {
                "TopicArn": "arn:aws:sns:us-east-1:123456789012:t",
                "PublishBatchRequestEntries": [{"Id": "1", "Message": "m"}],
            },
            [("sns:Publish", "arn:aws:sns:us-east-1:123456789012:t")],
        ),
        # Lambda API reference and Developer Guide, "Fine-tuning the Resources and Conditions sections of policies"
        ("lambda", "invoke_with_response_stream", {"FunctionName": "f"}, [("lambda:InvokeFunction", FUNCTION)]),
        (
            "lambda",
            "invoke",
            {"FunctionName": "f", "Qualifier": "live"},
            [("lambda:InvokeFunction", f"{FUNCTION}:live")],
        ),
        ("lambda", "invoke", {"FunctionName": "123456789012:function:f"}, [("lambda:InvokeFunction", FUNCTION)]),
        ("lambda", "invoke", {"FunctionName": FUNCTION}, [("lambda:InvokeFunction", FUNCTION)]),
        # KMS Developer Guide: an alias in Resource gives no access to its key
        ("kms", "encrypt", {"KeyId": "alias/a", "Plaintext": b"x"}, [("kms:Encrypt", "*")]),
        (
            "kms",
            "encrypt",
            {"KeyId": "arn:aws:kms:us-east-1:123456789012:alias/a", "Plaintext": b"x"},
            [("kms:Encrypt", "*")],
        ),
        (
            "dynamodb",
            "transact_write_items",
            {"TransactItems": [{"Delete": {"TableName": TABLE, "Key": {"a": {"S": "b"}}}}]},
            [("dynamodb:DeleteItem", TABLE)],
        ),
    ],
)
def test_other_services_need_what_the_authorization_reference_says(
    service: str, operation: str, parameters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert needed(service, operation, **parameters) == expected


def test_the_keys_that_every_request_has_are_known_and_time_is_what_the_clock_says() -> None:
    """IAM User Guide, "AWS global condition context keys": those whose availability is always."""
    context = CALLER.context(region="us-east-1", now_s=1_600_000_000.5)
    assert context["aws:currenttime"] == ("2020-09-13T12:26:40Z",)
    assert context["aws:epochtime"] == ("1600000000",)
    assert context["aws:viaawsservice"] == context["aws:principalisawsservice"] == ("false",)


def test_a_roles_path_is_in_its_arn_and_not_in_its_sessions() -> None:
    """IAM User Guide, "IAM identifiers": friendly names and paths."""
    told = replace(CALLER, path="/team/")
    assert told.context(region="us-east-1", now_s=0)["aws:principalarn"] == (
        "arn:aws:iam::123456789012:role/team/role",
    )
    assert told.arn == CALLER.arn == "arn:aws:sts::123456789012:assumed-role/role/f"


@pytest.mark.parametrize(("at_s", "allowed"), [(1_599_999_999.0, True), (1_600_000_001.0, False)])
def test_a_statement_may_end_at_a_moment(at_s: float, *, allowed: bool) -> None:
    until = {"DateLessThan": {"aws:CurrentTime": "2020-09-13T12:26:40Z"}}
    document = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", "Condition": until}

    class Somebody(Nobody):
        def policies(self, _caller: Caller) -> Policies:
            return Policies(statements({"Version": "2012-10-17", "Statement": document}))

    request = sent("s3", "get_object", **S3)
    answer = asked(Gate(passed, Somebody(), now=lambda: at_s), request.scope, b"")[0]
    assert (answer["status"] == 200) == allowed


def test_a_target_says_nothing_of_a_service_that_goes_by_paths() -> None:
    request = sent("s3", "get_object", **S3)
    request.scope["headers"].append((b"x-amz-target", b"A.ListAllMyBuckets"))
    found = operation_of("s3", request_of(request.scope))
    assert found is not None
    assert found.name == "GetObject"


SERVICES = st.sampled_from(
    [
        "s3",
        "dynamodb",
        "sagemaker",
        "monitoring",
        "sns",
        "sqs",
        "ssm",
        "kms",
        "kinesis",
        "secretsmanager",
        "lambda",
        "x",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["TableName", "RequestItems", "TransactItems", "Put", "Bucket", "Names", "EndpointName", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TARGETS = st.none() | st.sampled_from(["DynamoDB_20120810.TransactWriteItems", "A.B", ".", "A."])


class Nobody:
    """Roles that may nothing; every key is of a function."""

    def caller(self, _key: str) -> Caller:
        return CALLER

    def policies(self, _caller: Caller) -> Policies:
        return Policies(statements({"Version": "2012-10-17", "Statement": []}))


def asked(app: Any, scope: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    with contextlib.suppress(StopIteration):
        app(scope, receive, send).send(None)  # nothing in it waits, so it needs no loop
    return told


async def passed(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


@given(
    service=SERVICES,
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"]),
    path=st.text("/ab%{}*é", max_size=12).map(lambda text: f"/{text}"),
    query=st.text("&=?delete%41versionId", max_size=20),
    body=JSON.map(orjson.dumps) | st.binary(max_size=20),
    target=TARGETS,
)
def test_whatever_a_function_sends_it_is_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    service: str,
    method: str,
    path: str,
    query: str,
    body: bytes,
    target: str | None,
) -> None:
    credential = f"AWS4-HMAC-SHA256 Credential=ASIA1/20260101/us-east-1/{service}/aws4_request"
    headers = [(b"authorization", credential.encode()), *([(b"x-amz-target", target.encode())] if target else [])]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }
    refused = asked(Gate(passed, Nobody()), scope, body)
    assert refused[0]["status"] in {400, 403}
    assert method == "HEAD" or b"not authorized" in refused[1]["body"]
    folder = tmp_path_factory.getbasetemp() / "faults"
    faults = Faults(folder)
    faults.add(make("dynamodb-throttle", table="t"))
    faults.add(make("s3-503", bucket="none"))
    assert asked(FaultGate(passed, faults), scope, body)[0]["status"] in {200, 400, 503}
