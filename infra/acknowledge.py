"""Say at a construct why a security finding stands there."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, *, reason: str) -> None:
    """Accept one cdk-nag finding (`AwsSolutions-IAM5[Resource::*]`) on a construct and what is below it."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions::{finding}", reason=reason))
