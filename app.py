"""The CDK app: `cdk synth -c stage=dev` gives all stacks of a stage, from files alone."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App

from serving.errors import StreamHubError
from serving.spec.load import load_project
from stacks.compose import build_stage

ROOT = Path(__file__).parent


def main() -> None:
    """Read stage and specs, create the stacks, write the templates."""
    app = App()
    stage = app.node.try_get_context("stage")
    folder = app.node.try_get_context("lambdas")
    if not isinstance(stage, str):
        raise SystemExit("no stage given; allowed: a name of stages/*.toml; run cdk synth -c stage=dev")
    lambda_folder = ROOT / (folder if isinstance(folder, str) else "build/lambdas")
    try:
        build_stage(app, project=load_project(ROOT), stage_name=stage, lambda_folder=lambda_folder)
    except StreamHubError as error:
        raise SystemExit(str(error)) from error
    app.synth()


if __name__ == "__main__":
    main()
