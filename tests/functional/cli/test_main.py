"""Every command speaks in the same way: one JSON document, one line a refusal, exit codes 0, 1, 2."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from cli.main import COMMANDS, build


def streamhub(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = "from cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(name="broken")
def broken_fixture(root: Path, tmp_path: Path) -> Path:
    """Give a project folder with one wrong key in each of two files."""
    for folder in ("models", "stages"):
        shutil.copytree(root / folder, tmp_path / folder)
    for file, good, bad in (
        ("models/content_moderator/model.toml", "p99_ms = 45", 'p99_ms = "45"'),
        ("stages/prod.toml", 'name = "prod"', 'name = "prd"'),
    ):
        path = tmp_path / file
        path.write_text(path.read_text().replace(good, bad))
    return tmp_path


def test_check_passes_on_the_project_itself(root: Path) -> None:
    done = streamhub("check", "--json", cwd=root)
    assert (done.returncode, done.stderr) == (0, "")
    assert orjson.loads(done.stdout)["ok"] is True


def test_check_tells_the_problems_of_all_files_and_exits_1(broken: Path) -> None:
    done = streamhub("check", cwd=broken)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "models/content_moderator/model.toml: slo.p99_ms" in done.stderr
    assert "stages/prod.toml: name" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_as_json_holds_every_problem_with_its_parts(broken: Path) -> None:
    done = streamhub("check", "--json", cwd=broken)
    assert done.returncode == 1
    problems = orjson.loads(done.stdout)["problems"]
    assert {"file", "key", "got", "allowed", "fix", "source"} == set(problems[0])


def test_an_empty_folder_is_one_line(tmp_path: Path) -> None:
    done = streamhub("check", cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("no-such-command",), ("check", "--no-such-option"), ("package",)])
def test_wrong_usage_exits_2(root: Path, arguments: tuple[str, ...]) -> None:
    assert streamhub(*arguments, cwd=root).returncode == 2


@pytest.mark.parametrize(("code", "said"), [(130, True), (143, True), (129, True), (131, True), (3, False)])
def test_an_end_by_a_signal_is_said_in_the_last_line(root: Path, code: int, *, said: bool) -> None:
    program = f"import sys, cli.main; cli.main.build = lambda argv: lambda: sys.exit({code}); cli.main.main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, "interrupted" in done.stderr) == (code, said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_takes_what_is_half_written_with_it(root: Path, tmp_path: Path, number: signal.Signals) -> None:
    """A file that never ends: the archive is begun, and cannot be finished."""
    program = (
        "import os, pathlib, signal, sys, typer, cli.main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells start background jobs that ignore it
        "from model_packaging.archive import Member, write_archive\n"
        "def endless(): write_archive([Member('m', pathlib.Path(sys.argv[1]))], pathlib.Path(sys.argv[2]) / 'a.tar.gz',"
        " progress=lambda *_: (print('begun', flush=True), signal_comes()))\n"
        "def signal_comes():\n"
        f"    os.kill(os.getpid(), {number:d})\n"
        "def build(argv):\n"
        "    app = typer.Typer(); app.command()(endless); return lambda: app([])\n"
        "cli.main.build = build\n"
        "cli.main.main()\n"
    )
    (tmp_path / "in").write_bytes(bytes(3 << 20))
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "in"), str(out)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (128 + number, "begun\n")
    assert done.stderr == "streamhub: interrupted; what it had started is ended\n"
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("port", ["-1", "65536"])
@pytest.mark.parametrize("command", [("serve", "any.model.tar.gz"), ("local", "up")])
def test_a_port_that_cannot_be_is_wrong_usage(root: Path, command: tuple[str, ...], port: str) -> None:
    assert streamhub(*command, "--port", port, cwd=root).returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [("package", "thumbnail_scorer", "--out", "{file}"), ("local", "status", "--state", "{file}")],
    ids=["package", "local"],
)
def test_a_path_that_cannot_be_written_is_one_line(root: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("kept")
    done = streamhub(*(each.format(file=tmp_path / "file") for each in arguments), cwd=root)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / "file") in done.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_an_endpoint_that_is_no_url_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    done = streamhub("registry", "list", "--bucket", "any-bucket", cwd=root)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "nonsense" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(build({command}), [command, "--help"])
    assert done.exit_code == 0
    assert f" {command} [OPTIONS]" in done.stdout


def test_the_list_of_commands_has_each_and_imports_none(root: Path) -> None:
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    shown, imported = done.stdout.rsplit("\n", 2)[0], done.stdout.rsplit("\n", 2)[1].split()
    assert all(f"│ {name} " in shown for name in COMMANDS)
    assert {module for module, _ in COMMANDS.values()}.isdisjoint(imported)


def test_check_warns_of_quotas_and_says_what_capture_costs_without_refusing(root: Path) -> None:
    done = streamhub("check", "--stage", "prod", cwd=root)
    assert (done.returncode, done.stderr) == (0, "")
    *told, last = done.stdout.splitlines()
    assert any(line.startswith("warning: stages/prod.toml: models.support_rag.instance_type") for line in told)
    assert any("GB a day" in line and "USD a month" in line for line in told)
    assert last.startswith("ok: models")
    assert not any("dev" in line.split(":")[1] for line in told)


def test_check_gives_warnings_and_captures_of_all_stages_in_its_document(root: Path) -> None:
    document = orjson.loads(streamhub("check", "--json", cwd=root).stdout)
    assert {warning["key"] for warning in document["warnings"]} == {"models.support_rag.instance_type"}
    assert {capture["stage"] for capture in document["captures"]} == {"dev", "staging", "prod"}
    assert all(capture["volume"]["gb_a_day"] > 0 for capture in document["captures"])
