"""What an operation of S3 needs by IAM.

Actions are those of the Service Authorization Reference, with what the API reference asks for beside them: S3 User
Guide, "Required permissions for Amazon S3 API operations".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Final
from urllib.parse import parse_qs, unquote

from local.operations import Operation, Request

_ACTIONS: Final[Mapping[str, str]] = {
    "ListBuckets": "ListAllMyBuckets",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "HeadObject": "GetObject",
    "SelectObjectContent": "GetObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "DeleteObjects": "DeleteObject",
    "CreateBucketMetadataConfiguration": "CreateBucketMetadataTableConfiguration",
    "DeleteBucketMetadataConfiguration": "DeleteBucketMetadataTableConfiguration",
    "GetBucketMetadataConfiguration": "GetBucketMetadataTableConfiguration",
    "DeleteBucketCors": "PutBucketCORS",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketLifecycle": "GetLifecycleConfiguration",
    "GetBucketNotificationConfiguration": "GetBucketNotification",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutBucketLifecycle": "PutLifecycleConfiguration",
    "PutBucketNotificationConfiguration": "PutBucketNotification",
    "PutObjectLockConfiguration": "PutBucketObjectLockConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
}
"""The action of an operation, where it is not called alike."""
_CONFIGURED: Final = re.compile(
    r"(?P<verb>Get|Put|Delete|List)Bucket"
    r"(?P<what>Accelerate|Analytics|Encryption|IntelligentTiering|Inventory|Lifecycle|Metrics|Replication)"
    r"(Configurations?)?"
)
"""Operations on a bucket's settings: their action has no Bucket in it, deleting is putting, listing is getting."""
_VERSIONED: Final = frozenset(
    {
        "GetObject",
        "DeleteObject",
        "GetObjectAcl",
        "PutObjectAcl",
        "GetObjectAttributes",
        "GetObjectTagging",
        "PutObjectTagging",
        "DeleteObjectTagging",
    }
)
_WRITES: Final = frozenset({"PutObject", "CopyObject", "CreateMultipartUpload"})
_UNLOCKS: Final = frozenset({"DeleteObject", "DeleteObjects", "PutObjectRetention"})
_SAID_BY_HEADERS: Final[Mapping[str, str]] = {
    "x-amz-acl": "PutObjectAcl",
    "x-amz-tagging": "PutObjectTagging",
    "x-amz-object-lock-mode": "PutObjectRetention",
    "x-amz-object-lock-retain-until-date": "PutObjectRetention",
    "x-amz-object-lock-legal-hold": "PutObjectLegalHold",
}
"""What a write does beside writing (API PutObject; S3 User Guide, "Object Lock")."""
_OBJECT: Final = re.compile(r"<Object>(.*?)</Object>", re.DOTALL)
_KEY: Final = re.compile(r"<Key>([^<]*)</Key>")


def s3_needs(operation: Operation, request: Request) -> Iterator[tuple[str, str]]:
    """Give actions and the resources that they act on: a copy reads its source, a batch deletes each of its keys."""
    bucket = operation.parameters.get("Bucket")
    action = _action(operation.name)
    if bucket is None:
        yield f"s3:{action}", "*"
        return
    for needed, resource in _on_resources(operation, request, action):
        yield f"s3:{needed}", f"arn:aws:s3:::{bucket}{resource}"
    source = request.headers.get("x-amz-copy-source")
    if source is not None:
        path, _, query = source.partition("?")
        read = "GetObjectVersion" if "versionId" in parse_qs(query) else "GetObject"
        yield f"s3:{read}", f"arn:aws:s3:::{unquote(path).removeprefix('/')}"


def _action(operation: str) -> str:
    if operation in _ACTIONS:
        return _ACTIONS[operation]
    found = _CONFIGURED.fullmatch(operation)
    if found is None:
        return operation
    verb = {"Delete": "Put", "List": "Get"}.get(found["verb"], found["verb"])
    return f"{verb}{found['what']}Configuration"


def _on_resources(operation: Operation, request: Request, action: str) -> Iterator[tuple[str, str]]:
    parameters, headers = operation.parameters, request.headers
    if operation.name == "DeleteObjects":
        objects = [entry for entry in _OBJECT.findall(request.body.decode("utf-8", "replace")) if _KEY.search(entry)]
        keyed = [("<VersionId>" in entry, f"/{unescape(_KEY.findall(entry)[0])}") for entry in objects]
    else:
        keyed = [("VersionId" in parameters, f"/{parameters['Key']}")] if "Key" in parameters else []
    for has_version, resource in keyed or [(False, "")]:
        yield _of_version(action, has_version=has_version), resource
        if operation.name == "GetObjectAttributes":
            yield _of_version("GetObject", has_version=has_version), resource
        if operation.name in _UNLOCKS and headers.get("x-amz-bypass-governance-retention", "").lower() == "true":
            yield "BypassGovernanceRetention", resource
    if operation.name in _WRITES:
        said = [wanted for header, wanted in _SAID_BY_HEADERS.items() if header in headers]
        said += ["PutObjectAcl"] if any(header.startswith("x-amz-grant-") for header in headers) else []
        yield from ((wanted, keyed[0][1] if keyed else "") for wanted in dict.fromkeys(said))


def _of_version(action: str, *, has_version: bool) -> str:
    return action.replace("Object", "ObjectVersion") if has_version and action in _VERSIONED else action
