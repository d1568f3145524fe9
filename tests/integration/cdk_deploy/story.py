"""The life of one stage by the real CDK CLI: every step leaves a record, and the tests are claims about the records."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from local.cdk import CdkCli
from local.commands import Commands
from local.environment import clean_environment
from local.publish import package_all, push_all
from local.stack import LocalStack
from serving.spec.load import load_project

STAGE = "dev"
RANKER, MODERATOR, SCORER = (
    f"streamhub-{STAGE}-{slug}" for slug in ("recommendation-ranker", "content-moderator", "thumbnail-scorer")
)
ENDPOINTS = (RANKER, MODERATOR, SCORER)
REGISTRY = f"streamhub-{STAGE}-registry"


@dataclass(frozen=True, slots=True)
class Preflight:
    """What `streamhub preflight --json` answered."""

    code: int
    findings: tuple[Mapping[str, str], ...]

    def of(self, level: str, *, but: tuple[str, ...] = ()) -> list[str]:
        """Give the checks that found something at a level."""
        return sorted({found["check"] for found in self.findings if found["level"] == level} - set(but))

    def lines(self, check: str) -> list[str]:
        """Give what one check said, as text."""
        return [json.dumps(found) for found in self.findings if found["check"] == check]


@dataclass(frozen=True, slots=True)
class Look:
    """The account between two steps."""

    stacks: Mapping[str, str]
    endpoints: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, Mapping[str, str]]
    targets: Mapping[str, tuple[int, int]]
    update_calls: tuple[str, ...]

    def variants(self, endpoint: str) -> dict[str, tuple[float, int]]:
        """Give weight and count by slot."""
        return {
            variant["VariantName"]: (variant["CurrentWeight"], variant["CurrentInstanceCount"])
            for variant in self.endpoints[endpoint]["ProductionVariants"]
        }

    def config(self, endpoint: str) -> str:
        """Give the config that an endpoint serves."""
        return str(self.endpoints[endpoint]["EndpointConfigName"])


class World:
    """A copy of the project whose stage file may be edited, and the local AWS that it is deployed into."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.project = folder / "project"
        self._link(root)
        self.state = folder / "state"
        self.stack = LocalStack(self.state, self.project, on_progress=lambda _: None)
        self.templates = folder / "templates"

    def _link(self, root: Path) -> None:
        self.project.mkdir()
        for path in root.iterdir():
            if path.name not in {"stages", "cdk.out", "build", "dist", ".git", ".streamhub"}:
                (self.project / path.name).symlink_to(path)
        shutil.copytree(root / "stages", self.project / "stages")

    def edit(self, model: str, pattern: str, replacement: str) -> None:
        """Change one line under a model of the stage file."""
        path = self.project / "stages" / f"{STAGE}.toml"
        before, marker, rest = path.read_text().partition(f"[models.{model}]")
        section, following, after = rest.partition("\n[")
        changed, hits = re.subn(pattern, replacement, section, flags=re.MULTILINE)
        assert hits == 1, (model, pattern)
        path.write_text(before + marker + changed + following + after)

    @property
    def cdk(self) -> CdkCli:
        """The CLI as `streamhub local up` uses it."""
        return CdkCli(self.project, environment=self.stack.env, commands=Commands(self.state / "logs"))

    def synth(self, name: str, *, functions: bool = True) -> Path:
        """Build functions and templates as they are now; without `functions` those of the last time are taken."""
        lambdas, out = self.state / "lambdas", self.templates / name
        build = [sys.executable, "-m", "lambdas.build", "--target", "local", "--out", str(lambdas)]
        if functions:
            subprocess.run(build, cwd=self.project, env=clean_environment({}), check=True, capture_output=True)
        self.cdk.synth(stage=STAGE, lambdas=lambdas, out=out)
        return out

    def bootstrap(self) -> None:
        """Bootstrap account and region."""
        stage = load_project(self.project).stage(STAGE)
        self.cdk.bootstrap(account=stage.account, region=stage.region)

    def publish(self) -> None:
        """Package and push what the slots hold, and the version that will come."""
        project = load_project(self.project)
        archives = package_all(project, project.stage(STAGE), out=self.state / "dist", stopped=threading.Event())
        bucket, url = self.stack.env["STREAMHUB_REGISTRY_BUCKET"], self.stack.env["AWS_ENDPOINT_URL"]
        push_all(archives, bucket=bucket, endpoint_url=url, region=project.stage(STAGE).region)

    def preflight(self, templates: Path, *, project: Path | None = None) -> Preflight:
        """Run `streamhub preflight`."""
        command = ["preflight", "--stage", STAGE, "--json", "--templates", str(templates)]
        command += ["--root", str(project or self.project)]
        done = subprocess.run(
            [sys.executable, "-c", "from cli.main import main; main()", *command],
            cwd=self.project,
            env=clean_environment(self.stack.env),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        return Preflight(done.returncode, tuple(json.loads(done.stdout)["findings"]))

    def log(self, name: str) -> str:
        """Read the log of a step."""
        return (self.state / "logs" / f"{name}.log").read_text()

    def client(self, service: str) -> Any:
        """Give a plain boto3 client."""
        return boto3.client(
            service,
            endpoint_url=self.stack.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        )

    def look(self) -> Look:
        """Read what the claims are about."""
        sagemaker, scaling = self.client("sagemaker"), self.client("application-autoscaling")
        stacks = self.client("cloudformation").describe_stacks()["Stacks"]
        targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
        return Look(
            stacks={stack["StackName"]: stack["StackStatus"] for stack in stacks},
            endpoints={name: _described(sagemaker, name) for name in _names(sagemaker)},
            types={
                name: {
                    variant["VariantName"]: variant["InstanceType"]
                    for variant in sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
                }
                for name, config in _configs(sagemaker).items()
            },
            targets={target["ResourceId"]: (target["MinCapacity"], target["MaxCapacity"]) for target in targets},
            update_calls=tuple(re.findall(r"SageMaker\.UpdateEndpoint (\{.*\})", self.log("gateway"))),
        )


def _configs(sagemaker: Any) -> dict[str, str]:
    return {name: _described(sagemaker, name)["EndpointConfigName"] for name in _names(sagemaker)}


def _names(sagemaker: Any) -> list[str]:
    return [found["EndpointName"] for found in sagemaker.list_endpoints()["Endpoints"]]


def _described(sagemaker: Any, name: str) -> dict[str, Any]:
    described: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
    del described["ResponseMetadata"]
    return described


def swapped(project: Path, templates: Path, to: Path, *, old: str, new: str) -> tuple[Path, Path]:
    """Give a copy of project and templates in which one text stands for another: what somebody else would deploy."""
    shutil.copytree(templates, to / "templates", ignore=shutil.ignore_patterns("asset.*", ".cache"))
    (to / "project").mkdir()
    (to / "project" / "models").symlink_to(project / "models")
    shutil.copytree(project / "stages", to / "project" / "stages")
    for path in to.glob("templates/*recommendation-ranker.template.json"):
        path.write_text(path.read_text().replace(old, new))
    return to / "project", to / "templates"


def leftovers(world: World) -> Iterator[str]:
    """Give everything that is still named after the stage, of every service that its templates use."""
    for service, call, key, name in (
        ("cloudformation", "describe_stacks", "Stacks", "StackName"),
        ("sagemaker", "list_endpoints", "Endpoints", "EndpointName"),
        ("sagemaker", "list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"),
        ("sagemaker", "list_models", "Models", "ModelName"),
        ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
        ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
        ("lambda", "list_functions", "Functions", "FunctionName"),
        ("dynamodb", "list_tables", "TableNames", ""),
        ("s3", "list_buckets", "Buckets", "Name"),
        ("iam", "list_roles", "Roles", "RoleName"),
        ("logs", "describe_log_groups", "logGroups", "logGroupName"),
        ("events", "list_rules", "Rules", "Name"),
        ("sns", "list_topics", "Topics", "TopicArn"),
        ("apigatewayv2", "get_apis", "Items", "Name"),
        ("elasticache", "describe_serverless_caches", "ServerlessCaches", "ServerlessCacheName"),
        ("elasticache", "describe_replication_groups", "ReplicationGroups", "ReplicationGroupId"),
        ("elasticache", "describe_users", "Users", "UserId"),
        ("elasticache", "describe_user_groups", "UserGroups", "UserGroupId"),
        ("cloudformation", "list_exports", "Exports", "Name"),
    ):
        found = getattr(world.client(service), call)().get(key, ())
        names = [item if isinstance(item, str) else item[name] for item in found]
        yield from (f"{service} {item}" for item in names if f"streamhub-{STAGE}" in item or f"/{STAGE}/" in item)
    yield from _unnamed(world)


def _unnamed(world: World) -> Iterator[str]:
    scaling, ec2 = world.client("application-autoscaling"), world.client("ec2")
    for call, key in (
        ("describe_scalable_targets", "ScalableTargets"),
        ("describe_scaling_policies", "ScalingPolicies"),
    ):
        found = getattr(scaling, call)(ServiceNamespace="sagemaker")[key]
        yield from (f"application-autoscaling {item['ResourceId']}" for item in found)
    for call, key, name in (
        ("describe_vpcs", "Vpcs", "VpcId"),
        ("describe_subnets", "Subnets", "SubnetId"),
        ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
        ("describe_security_groups", "SecurityGroups", "GroupId"),
    ):
        for item in getattr(ec2, call)()[key]:
            tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", ())}
            if tags.get("stage") == STAGE:
                yield f"ec2 {item[name]}"
