"""The stage's own image repository: what Fargate runs is pulled from the account it runs in."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.lifecycle import removal_policy
from serving.spec import StageSpec

_UNTAGGED_DAYS = 14


def repository_name(stage: StageSpec) -> str:
    """Give its name; the image of the API is pushed there (docs/deploy.md)."""
    return f"streamhub-{stage.name}-api"


class ImageRepository(Construct):
    """Tags that never move, scanned at each push; an image without a tag is dropped after two weeks."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self.repository = ecr.Repository(
            self,
            "Repository",
            repository_name=repository_name(stage),
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS if key is not None else ecr.RepositoryEncryption.AES_256,
            encryption_key=key,
            lifecycle_rules=[
                ecr.LifecycleRule(tag_status=ecr.TagStatus.UNTAGGED, max_image_age=Duration.days(_UNTAGGED_DAYS))
            ],
            removal_policy=removal_policy(stage),
            empty_on_delete=stage.removal == "destroy",
        )
