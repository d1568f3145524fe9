"""Container contexts of TorchServe and BentoML, started without Docker by their own entry and asked as SageMaker asks.

`make test-train` installs both servers beside the lock; TorchServe also needs a Java. The images themselves are not
built here: what their base has is not tried.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
import urllib3

from model_packaging.container import WrittenContext, write_context
from tests.unit.packaging.foreign import BASE, SERVICE, write_folder

pytestmark = pytest.mark.train

TORCHSERVE = Path(sys.prefix) / "torchserve"
BENTOML = Path(sys.prefix) / "bentoml"
HANDLER = """\
import torch


class Adder:
    def initialize(self, context):
        weights = torch.load(context.system_properties["model_dir"] + "/model.pt")
        self.bias = float(weights["bias"])

    def handle(self, data, context):
        return [[value + self.bias for value in row["body"]["values"]] for row in data]
"""

HTTP = urllib3.PoolManager(retries=False)
READY_S = 120.0
STOP_S = 30
"""SageMaker kills a container that long after its SIGTERM."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(made: WrittenContext, environment: dict[str, str], tmp_path: Path, *, python: Path) -> Iterator[str]:
    """Run the image's ENTRYPOINT with `serve`, in a copy of its files that listens on this machine alone."""
    app = tmp_path / "opt/app"
    shutil.copytree(made.path / "app", app)
    entry = app / made.app.entry
    source = entry.read_text()
    assert source.count("0.0.0.0") == 1  # noqa: S104 - what the image says, not what is listened at
    entry.write_text(source.replace("0.0.0.0", "127.0.0.1"))  # noqa: S104 - as above
    for path in app.rglob("*"):
        path.chmod(0o555)
    (declared,) = re.findall(r"^ENV (.*)$", (made.path / "Dockerfile").read_text(), flags=re.MULTILINE)
    elsewhere = re.sub(r"=/(opt/app|tmp)", lambda found: f"={app if found[1] == 'opt/app' else tmp_path}", declared)
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [str(python), str(entry), "serve"],
            cwd=app / made.app.folder,
            env={
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                **dict(pair.split("=", 1) for pair in elsewhere.split()),
                **environment,
                "TMPDIR": str(tmp_path),
                "SAGEMAKER_BIND_TO_PORT": str(port),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, server, log)
        yield url
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=STOP_S)
    finally:
        server.kill()
        server.wait()


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = monotonic() + READY_S
    while monotonic() < until and server.poll() is None:
        with suppress(urllib3.exceptions.HTTPError):
            if HTTP.request("GET", f"{url}/ping", timeout=2).status == 200:
                return
        sleep(0.2)
    pytest.fail(f"not ready in {READY_S:g} s:\n{log.read_text()[-3000:]}")


def invoke(url: str, document: object) -> object:
    answer = HTTP.request("POST", f"{url}/invocations", json=document, timeout=30)
    assert answer.status == 200, answer.data
    return answer.json()


@pytest.mark.skipif(
    not (BENTOML / "bin/bentoml").is_file(), reason="BentoML is not installed; run make test-train, which installs it"
)
def test_a_bento_that_bentoml_built_answers_ping_and_invocations_and_ends_at_sigterm(tmp_path: Path) -> None:
    project = write_folder(
        {
            "service.py": SERVICE.encode(),
            "model.json": b'{"bias": 1.5}',
            "bentofile.yaml": b"service: service:Adder\ninclude: ['*.py', '*.json']\npython:\n  lock_packages: false\n"
            b"  packages: ['bentoml==1.4.40']\n",
        },
        tmp_path / "project",
    )
    environment = {"BENTOML_HOME": str(tmp_path / "home"), "BENTOML_DO_NOT_TRACK": "True", "PATH": os.environ["PATH"]}
    command = [str(BENTOML / "bin/bentoml"), "build", "--version", "1.0.0"]
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
    made = write_context(tmp_path / "home/bentos/adder/1.0.0", base=BASE, out_dir=tmp_path / "out")
    assert made.app.invocations == "/v1/add"
    with started(made, {}, tmp_path, python=BENTOML / "bin/python") as url:
        assert invoke(url, {"values": [1, 2.5]}) == [2.5, 4.0]
        assert b"bentoml_service_request_total" in HTTP.request("GET", f"{url}/metrics").data


@pytest.fixture(name="java")
def java_fixture() -> None:
    if not (TORCHSERVE / "ts").is_dir():
        pytest.skip("TorchServe is not installed; run make test-train, which installs it")
    if shutil.which("java") is None:
        pytest.skip("no Java; install openjdk-17-jre-headless")


@pytest.mark.usefixtures("java")
def test_weights_that_torch_model_archiver_packed_answer_ping_and_invocations_and_end_at_sigterm(
    tmp_path: Path,
) -> None:
    import torch  # noqa: PLC0415 - as heavy as the rest of this file

    files = write_folder({"handler.py": HANDLER.encode()}, tmp_path / "files")
    torch.save({"bias": torch.tensor(1.5)}, files / "model.pt")
    words = ["--model-name", "adder", "--version", "1.0", "--handler", "handler.py", "--export-path", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "model_archiver.model_packaging", *words, "--serialized-file", "model.pt"],
        cwd=files,
        env={"PYTHONPATH": str(TORCHSERVE), "PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
    )
    made = write_context(tmp_path / "adder.mar", base=BASE, out_dir=tmp_path / "out")
    with served_by_torchserve(made, tmp_path) as url:
        assert invoke(url, {"values": [1, 2.5]}) == [2.5, 4.0]
        # models come from the image alone
        assert HTTP.request("POST", f"{url}/models?url=other.mar").status == 404


def served_by_torchserve(made: WrittenContext, tmp_path: Path) -> AbstractContextManager[str]:
    ports = {name: str(free_port()) for name in ("TS_GRPC_INFERENCE_PORT", "TS_GRPC_MANAGEMENT_PORT")}
    addresses = {name: f"http://127.0.0.1:{free_port()}" for name in ("TS_MANAGEMENT_ADDRESS", "TS_METRICS_ADDRESS")}
    environment = {"PYTHONPATH": str(TORCHSERVE), "TS_DEFAULT_WORKERS_PER_MODEL": "1", **ports, **addresses}
    return started(made, environment, tmp_path, python=Path(sys.executable))
