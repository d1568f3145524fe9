"""The workflows run what a person runs, hold no secret, and let prod pass by a person only."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKE = re.compile(r"^make (?:-C base )?([a-z-]+)")
STAGES = sorted(path.stem for path in ROOT.glob("stages/*.toml"))


def workflow(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return document


def steps(document: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in document["jobs"].values() for step in job.get("steps", ())]


def commands(name: str) -> list[str]:
    return [step["run"] for step in steps(workflow(name)) if "run" in step]


def test_actionlint_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "actionlint"
    done = subprocess.run([str(linter), *map(str, FILES)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_command_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for path in FILES:
        for command in commands(path.name):
            found = MAKE.match(command)
            assert found, f"{path.name}: {command}"
            assert found.group(1) in targets


def test_a_change_is_checked_tested_synthesised_and_compared() -> None:
    used = {found.group(1) for command in commands("ci.yml") if (found := MAKE.match(command))}
    assert used == {"check", "test", "synth", "diff"}
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"make {target}" in gate for target in used - {"diff"})
    for job in ("synth", "diff"):
        assert sorted(workflow("ci.yml")["jobs"][job]["strategy"]["matrix"]["stage"]) == STAGES


def test_a_destructive_change_of_a_pull_request_fails_unless_a_person_labelled_it() -> None:
    job = workflow("ci.yml")["jobs"]["diff"]
    assert job["if"] == "github.event_name == 'pull_request'"
    (compare,) = [step for step in job["steps"] if step.get("run", "").startswith("make diff")]
    assert "'destructive'" in compare["continue-on-error"]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndiff:")[1].split("\n\n")[0]
    assert "--fail-on destructive" in recipe
    assert "--against" in recipe


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_action_is_pinned_by_commit(path: Path) -> None:
    for step in steps(workflow(path.name)):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_workflow_reads_a_secret_and_none_writes_to_the_repository(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "secrets" not in text
    assert workflow(path.name)["permissions"] == {"contents": "read"}
    for job in workflow(path.name)["jobs"].values():
        assert set(job.get("permissions", {}).items()) <= {("contents", "read"), ("id-token", "write")}


def test_pull_requests_get_no_token_for_an_account() -> None:
    assert "id-token" not in json.dumps(workflow("ci.yml"))


def test_stages_are_deployed_one_after_the_other_each_in_its_own_environment() -> None:
    jobs = workflow("deploy.yml")["jobs"]
    assert [job["with"]["stage"] for job in jobs.values()] == ["dev", "staging", "prod"]
    assert [job.get("needs") for job in jobs.values()] == [None, "dev", "staging"]
    (deploy,) = workflow("deploy-stage.yml")["jobs"].values()
    assert deploy["environment"] == "${{ inputs.stage }}"
    assert deploy["concurrency"] == {"group": "deploy-${{ inputs.stage }}", "cancel-in-progress": False}


def test_the_role_that_a_stage_trusts_is_for_its_environment_alone() -> None:
    trust = json.loads((ROOT / "docs" / "ci-trust-policy.json").read_text(encoding="utf-8"))
    (statement,) = trust["Statement"]
    conditions = statement["Condition"]
    assert set(conditions) == {"StringEquals"}, "StringLike would let a wildcard in"
    subject = conditions["StringEquals"]["token.actions.githubusercontent.com:sub"]
    assert re.fullmatch(r"repo:[\w.-]+/[\w.-]+:environment:(\w+)", subject)
    assert subject.rsplit(":", 1)[1] in STAGES
    assert conditions["StringEquals"]["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"


def test_a_deploys_credentials_last_as_long_as_its_job_and_the_role_allows_that() -> None:
    """One hour is the default of both (IAM API, *CreateRole*, MaxSessionDuration); an expired session ends a deploy."""
    (job,) = workflow("deploy-stage.yml")["jobs"].values()
    (login,) = [step for step in job["steps"] if "configure-aws-credentials" in step.get("uses", "")]
    seconds = login["with"]["role-duration-seconds"]
    assert seconds >= job["timeout-minutes"] * 60
    assert f"--max-session-duration {seconds}" in (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
