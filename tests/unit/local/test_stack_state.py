from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local import state as states
from local.commands import Commands, summary_of
from local.environment import bytecode_environment, clean_environment, stack_environment
from local.lifecycle import refuse_running, report, take_down, take_lock
from local.state import ServiceState, StackState
from serving.errors import LocalStackError
from serving.spec import StageSpec

DEV = StageSpec(
    name="dev",
    account="123456789012",
    region="us-east-1",
    removal="destroy",
    availability_zones=("us-east-1a",),
    cache="serverless",
    log_retention_days=7,
    models={},
)
SERVICES = {"gateway": ServiceState(pid=11, port=4000, log="g.log"), "valkey": ServiceState(pid=12, port=4001, log="v")}


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = StackState(pid=7, started=1.5, services=SERVICES, failed="")
    states.write(tmp_path, state)
    assert states.read(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == [states.FILE]


_NO_STATES = [
    "",
    "[]",
    "null",
    '{"format": 2}',
    '{"format": 1, "pid": 1}',
    '{"format": 1, "pid": "x", "started": 1, "services": {}, "failed": ""}',
    '{"format": 1, "pid": 1, "started": 1, "services": 3, "failed": ""}',
]


@pytest.mark.parametrize("text", _NO_STATES)
def test_a_file_that_is_no_state_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / states.FILE).write_text(text)
    with pytest.raises(LocalStackError, match=r"state\.json: got .*delete"):
        states.read(tmp_path)


def test_a_number_taken_by_another_process_is_a_stale_state(tmp_path: Path) -> None:
    states.write(tmp_path, StackState(pid=os.getpid(), started=0, services=SERVICES))
    assert report(tmp_path) == {"state": "stale", "pid": None, "services": {}, "kept_at": None}
    refuse_running(tmp_path)
    assert not take_down(tmp_path)
    assert report(tmp_path)["state"] == "down"


def test_without_a_state_nothing_runs(tmp_path: Path) -> None:
    assert report(tmp_path) == {"state": "down", "pid": None, "services": {}, "kept_at": None}
    assert not take_down(tmp_path)


@pytest.mark.parametrize(
    ("names", "port", "ended", "ready"),
    [
        (("gateway",), 1, None, False),
        (("gateway", "api"), 1, None, True),
        (("gateway", "api"), 0, None, False),
        (("gateway", "api"), 1, 1, False),
    ],
)
def test_a_stack_is_ready_when_all_answer_and_the_api_is_among_them(
    names: tuple[str, ...], port: int, ended: int | None, *, ready: bool
) -> None:
    services = {name: ServiceState(pid=1, port=port, log="", exit_code=ended) for name in names}
    assert StackState(pid=1, started=0, services=services).ready is ready


def test_no_child_is_led_to_another_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTPS_PROXY", "STREAMHUB_STAGE", "CDK_DEFAULT_ACCOUNT"):
        monkeypatch.setenv(name, "real")
    cleaned = clean_environment({"AWS_REGION": "us-east-1"})
    assert "real" not in cleaned.values()
    assert cleaned["AWS_REGION"] == "us-east-1"
    assert cleaned["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(("told", "kept"), [("1", True), ("", False)])
def test_compiled_modules_are_kept_apart_where_none_may_lie_beside_the_sources(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", told)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    environment = clean_environment(bytecode_environment(tmp_path / "bytecode"))
    subprocess.run([sys.executable, "-c", "import json.tool"], env=environment, check=True)
    assert any(tmp_path.rglob("tool*.pyc")) is kept


def test_the_environment_stays_on_loopback_and_names_what_is_deployed() -> None:
    environment = stack_environment(DEV, gateway_port=1, valkey_port=2, support_port=3, clock=Path("clock.json"))
    urls = {name: value for name, value in environment.items() if "://" in value}
    assert all("//127.0.0.1:" in value for value in urls.values())
    assert environment["STREAMHUB_REGISTRY_BUCKET"] == "streamhub-dev-registry-123456789012"
    assert environment["STREAMHUB_LOCAL_FEATURES_URL"] == "valkey://127.0.0.1:2"


def test_one_stack_at_a_time_starts_in_a_folder(tmp_path: Path) -> None:
    held = take_lock(tmp_path)
    with pytest.raises(LocalStackError, match="another process starts a stack there"):
        take_lock(tmp_path)
    os.close(held)
    os.close(take_lock(tmp_path))


def run(commands: Commands, code: str) -> None:
    commands.run("step", [sys.executable, "-c", code], folder=commands.logs, environment=dict(os.environ))


def test_a_failed_program_is_one_line_with_its_log(tmp_path: Path) -> None:
    code = "print('going'); print('Error: no bucket'); print('hint: make one'); raise SystemExit(3)"
    with pytest.raises(
        LocalStackError, match=r"^step gave exit 3: Error: no bucket hint: make one \(log: .*step\.log\)$"
    ):
        run(Commands(tmp_path), code)


def test_a_failed_deployment_is_told_by_what_failed_and_not_by_an_alarm_called_errors(tmp_path: Path) -> None:
    lines = [
        "stack | 5/21 | CREATE_COMPLETE | AWS::CloudWatch::Alarm | Objectives/ErrorsB (ObjectivesErrorsBE308C310)",
        "stack | 6/21 | CREATE_FAILED | AWS::S3::Bucket | Bucket (B1) the name is taken",
    ]
    (tmp_path / "x.log").write_text("\n".join(lines))
    assert summary_of(tmp_path / "x.log").startswith("stack | 6/21 | CREATE_FAILED | AWS::S3::Bucket")


def test_a_program_that_works_leaves_its_output_in_the_log(tmp_path: Path) -> None:
    run(Commands(tmp_path), "print('done')")
    assert (tmp_path / "step.log").read_text() == "done\n"


def test_after_stop_nothing_starts(tmp_path: Path) -> None:
    commands = Commands(tmp_path)
    commands.stop()
    with pytest.raises(LocalStackError, match="being stopped"):
        run(commands, "print('done')")


def test_the_summary_of_a_silent_log_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("\n\n")
    assert summary_of(tmp_path / "x.log") == "no output"


def test_a_process_is_a_supervisor_by_what_it_runs(tmp_path: Path) -> None:
    code = "import sys; print('runs', flush=True); sys.stdin.read()"
    lines = [sys.executable, "-c", code, "local.supervisor"]
    with subprocess.Popen(lines, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"runs\n"
            assert states.is_supervisor(process.pid)
            assert not states.is_supervisor(os.getpid())
        finally:
            process.communicate()
