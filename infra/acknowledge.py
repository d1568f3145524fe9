"""Say at a construct why a security finding stands there."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, *, reason: str) -> None:
    """Accept one cdk-nag finding (`AwsSolutions-IAM5[Resource::*]`) on a construct and what is below it."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions::{finding}", reason=reason))


def acknowledge_template(construct: IConstruct, rule: str, *, reason: str) -> None:
    """Accept one finding of the CDK's own template validation (`W3010`) on a construct and what is below it."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"CloudFormation-Validate::{rule}", reason=reason))
