"""A version as a SageMaker Model Package, for teams whose pipelines look there; the registry in S3 stays the truth.

One package a digest in a group: the client token is made of both, and the customer metadata holds the digest
(API_CreateModelPackage).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from serving.aws.session import client
from serving.errors import RegistryError
from serving.spec.images import image_table
from serving.spec.manifest import PackageManifest, RegisteredModel

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient

ApprovalStatus = Literal["Approved", "Rejected", "PendingManualApproval"]

_DIGEST = "streamhub-sha256"
_VERSION = "streamhub-version"
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPackage:
    """A version in a group of SageMaker's own registry."""

    arn: str
    sha256: str
    status: str


def connect(group: str) -> ModelPackages:
    """Give the group of that name, with region, credentials and endpoint of the environment."""
    return ModelPackages(client("sagemaker"), group=group)


class ModelPackages:
    """Packages of one model package group."""

    def __init__(self, client: SageMakerClient, *, group: str) -> None:
        self._client = client
        self._group = group

    def register(self, registered: RegisteredModel, manifest: PackageManifest) -> ModelPackage:
        """Enter a version, pending approval; one with the same digest is found, not made twice.

        Raises:
            RegistryError: SageMaker refuses, or AWS has no containers in the region.

        """
        if (known := self.find(registered.sha256)) is not None:
            return known
        token = hashlib.sha256(f"{self._group}/{registered.sha256}".encode()).hexdigest()[:36]
        try:
            self._make_group()
            self._client.create_model_package(
                ModelPackageGroupName=self._group,
                ModelPackageDescription=f"{registered.name} {registered.version}, pushed by {registered.created_by}",
                InferenceSpecification=_inference(registered, manifest, self._image(manifest)),
                ModelApprovalStatus="PendingManualApproval",
                CustomerMetadataProperties={_DIGEST: registered.sha256, _VERSION: registered.version},
                ClientToken=token,
            )
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(error) from error
        made = self.find(registered.sha256)
        if made is None:
            raise RegistryError(f"model package group {self._group}: got no package back; look at it in SageMaker")
        return made

    def find(self, sha256: str) -> ModelPackage | None:
        """Give the package of a digest; None where the group has none, or there is no group."""
        try:
            pages = self._client.get_paginator("list_model_packages").paginate(ModelPackageGroupName=self._group)
            arns = [entry["ModelPackageArn"] for page in pages for entry in page["ModelPackageSummaryList"]]
            for arn in arns:
                found = self._client.describe_model_package(ModelPackageName=arn)
                if found.get("CustomerMetadataProperties", {}).get(_DIGEST) == sha256:
                    return ModelPackage(arn=arn, sha256=sha256, status=found.get("ModelApprovalStatus", ""))
        except ClientError as error:
            if "does not exist" in str(error):  # SageMaker says ValidationException for a missing group
                return None
            raise self._refusal(error) from error
        except BotoCoreError as error:
            raise self._refusal(error) from error
        return None

    def decide(self, sha256: str, status: ApprovalStatus, *, reason: str) -> ModelPackage:
        """Set the approval status of a digest's package; where it is so already, nothing changes.

        Raises:
            RegistryError: the group has no such digest, or SageMaker refuses.

        """
        known = self.find(sha256)
        if known is None:
            raise RegistryError(
                f"model package group {self._group}: got sha256 {sha256}, which it has no package of; "
                f"push the version with --model-package-group {self._group} first"
            )
        if known.status == status:
            return known
        try:
            self._client.update_model_package(
                ModelPackageArn=known.arn,
                ModelApprovalStatus=status,
                ApprovalDescription=reason,
                CustomerMetadataProperties={_DIGEST: sha256},  # AWS adds what is given; moto replaces all by it
            )
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(error) from error
        return ModelPackage(arn=known.arn, sha256=sha256, status=status)

    def _image(self, manifest: PackageManifest) -> str:
        """Give the image's URI: it is in the manifest, or in the registry of AWS's containers for the region."""
        if ".dkr.ecr." in manifest.image:
            return manifest.image
        region, registries = self._client.meta.region_name, image_table().registries
        if region not in registries:
            raise RegistryError(f"region: got {region}; allowed one of {', '.join(sorted(registries))}; set AWS_REGION")
        return f"{registries[region]}.dkr.ecr.{region}.amazonaws.com/{manifest.image}"

    def _make_group(self) -> None:
        try:
            self._client.create_model_package_group(ModelPackageGroupName=self._group)
        except ClientError as error:
            if "already exists" not in str(error):
                raise

    def _refusal(self, error: Exception) -> RegistryError:
        return RegistryError(
            f"model package group {self._group}: got {error}; allowed a group this caller may write; "
            f"check its name, the credentials and the region"
        )


def _inference(registered: RegisteredModel, manifest: PackageManifest, image: str) -> Any:  # noqa: ANN401 - of the stubs' own union
    archive = manifest.layout == "archive"
    source = {
        "S3Uri": registered.s3_uri,
        "S3DataType": "S3Object" if archive else "S3Prefix",
        "CompressionType": "Gzip" if archive else "None",
    }
    return {
        "Containers": [{"Image": image, "ModelDataSource": {"S3DataSource": source}}],
        "SupportedContentTypes": [_JSON],
        "SupportedResponseMIMETypes": [_JSON],
    }
