"""Archives in NVIDIA's own server: the wheel `nvidia-pytriton` has tritonserver 2.51 with the Python backend, no other.

`make test-train` installs it. What needs another backend is listed as not loaded here; no model is run by a backend
that it was not packaged for.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from model_packaging.build import package, package_path
from serving.protocol.archive import ModelFolder, unpack
from serving.spec.container import environment_of
from tests.unit.packaging.zoo import MIXED, ONNX, PYTHON, TORCH, Model

pytestmark = pytest.mark.train

WHEEL = Path(sys.prefix) / "triton"
SERVER = WHEEL / "pytriton/tritonserver"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
READY_S = 60.0

if not SERVER.is_dir():
    pytest.skip("nvidia-pytriton is not installed; run make test-train, which installs it", allow_module_level=True)

Unpacked = Callable[[Model], ModelFolder]


@pytest.fixture(name="unpacked")
def unpacked_fixture(tmp_path: Path) -> Unpacked:
    def make(model: Model) -> ModelFolder:
        folder = tmp_path / "models" / model.name
        (folder / "samples").mkdir(parents=True)
        (folder / "samples/request.json").write_bytes(model.sample)
        weights = model.write(folder)
        package(model.spec, "1.0.0", model_dir=folder, out_dir=tmp_path, image="image:1", weights=weights)
        return unpack(package_path(tmp_path, model.spec, "1.0.0"), tmp_path / "opt/ml/model")

    return make


@pytest.fixture(scope="module", name="backends")
def backends_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the stub of this Python beside the backend; its import path has that folder, so NumPy lies there too."""
    stub = SERVER / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    if not stub.is_file():
        pytest.skip(f"nvidia-pytriton has no stub for Python {PYTHON_VERSION}")
    into = tmp_path_factory.mktemp("backends") / "python"
    shutil.copytree(SERVER / "backends/python", into)
    shutil.copy2(stub, into)
    for name in ("numpy", "numpy.libs"):
        (into / name).symlink_to(WHEEL / name)
    return into.parent


@pytest.fixture(scope="module", name="interpreter")
def interpreter_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment in which the stub finds libpython and a standard library without anybody's packages.

    The stub was built for NumPy 1: another one in the interpreter's own site-packages gives wrong numbers. The
    system's libpython comes first; that of pyenv gave wrong numbers too.
    """
    own = Path(sysconfig.get_config_var("LIBDIR")) / f"libpython{PYTHON_VERSION}.so.1.0"
    found_by_the_linker = ctypes.util.find_library(f"python{PYTHON_VERSION}") is not None
    if not own.is_file() and not found_by_the_linker:
        pytest.skip(f"there is no libpython{PYTHON_VERSION}.so, which the stub of the Python backend loads")
    of_the_system = Path(f"/usr/lib/python{PYTHON_VERSION}")
    stdlib = of_the_system if found_by_the_linker else Path(sysconfig.get_path("stdlib"))
    home = tmp_path_factory.mktemp("home")
    packages = home / "lib" / f"python{PYTHON_VERSION}"
    packages.mkdir(parents=True)
    for path in stdlib.iterdir():
        if path.name not in {"site-packages", "dist-packages"}:
            (packages / path.name).symlink_to(path)
    libraries = [WHEEL / "nvidia_pytriton.libs", *([] if found_by_the_linker else [own.parent])]
    return {"PYTHONHOME": str(home), "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


Serving = Callable[[Path, Model], AbstractContextManager[Any]]


@pytest.fixture(name="serving")
def serving_fixture(backends: Path, interpreter: dict[str, str], tmp_path: Path) -> Serving:
    @contextmanager
    def serve(root: Path, model: Model) -> Iterator[Any]:
        log = tmp_path / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        with log.open("wb") as out:
            arguments = command(root, model, backends, port)
            environment = {"PATH": os.environ["PATH"], **interpreter}
            process = subprocess.Popen(arguments, stdout=out, stderr=out, env=environment)
        client = triton_http.InferenceServerClient(f"127.0.0.1:{port}")
        try:
            until_s = monotonic() + READY_S
            while not ready(client, model.name):
                assert process.poll() is None, log.read_text()[-4000:]
                assert monotonic() < until_s, log.read_text()[-4000:]
                sleep(0.1)
            yield client
        finally:
            client.close()
            process.terminate()
            process.wait(timeout=40)

    return serve


def command(root: Path, model: Model, backends: Path, port: int) -> list[str]:
    """Give the arguments of SageMaker's script (server, docker/sagemaker/serve), but for its frontend."""
    name = environment_of(model.spec)["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"]
    return [
        str(SERVER / "bin/tritonserver"),
        f"--model-repository={root}",
        f"--backend-directory={backends}",
        "--model-control-mode=explicit",
        f"--load-model={name}",
        "--disable-auto-complete-config",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]


def ready(client: Any, name: str) -> bool:
    try:
        return bool(client.is_model_ready(name))
    except OSError:
        return False


def asked(client: Any, model: Model, arrays: dict[str, Any]) -> dict[str, Any]:
    inputs = []
    for spec in model.inputs:
        array = arrays[spec.name]
        given = triton_http.InferInput(spec.name, list(array.shape), spec.dtype.value)
        given.set_data_from_numpy(array)
        inputs.append(given)
    answer = client.infer(model.name, inputs)
    return {spec.name: answer.as_numpy(spec.name) for spec in model.outputs}


def test_a_python_model_answers_alone_and_as_a_full_batch(unpacked: Unpacked, serving: Serving) -> None:
    (double, _) = PYTHON
    with serving(unpacked(double).root, double) as client:
        for rows in (1, double.runtime.max_batch_size):
            x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
            np.testing.assert_array_equal(asked(client, double, {"x": x})["y"], x * 2)


def test_the_server_runs_with_the_limits_of_the_spec(unpacked: Unpacked, serving: Serving) -> None:
    (double, _) = PYTHON
    with serving(unpacked(double).root, double) as client:
        config = client.get_model_config("double")
    assert config["max_batch_size"] == double.runtime.max_batch_size
    assert config["version_policy"] == {"specific": {"versions": [1]}}
    policy = config["dynamic_batching"]["default_queue_policy"]
    assert policy["timeout_action"] == "REJECT"
    assert int(policy["default_timeout_microseconds"]) == 100_000
    assert policy["max_queue_size"] == double.runtime.max_queue_size
    assert int(config["dynamic_batching"]["max_queue_delay_microseconds"]) == 10_000
    assert [warm["batch_size"] for warm in config["model_warmup"]] == [1, double.runtime.max_batch_size]


def test_an_ensemble_of_python_models_passes_texts_through(unpacked: Unpacked, serving: Serving) -> None:
    (_, labels) = PYTHON
    with serving(unpacked(labels).root, labels) as client:
        text = np.array([["hello"], ["a sentence"], ["grüße"]], dtype=np.object_)
        found = asked(client, labels, {"text": text})["label"]
    # bytes of UTF-8: 5, 10 and 7; words are long above 9
    assert found.tolist() == [[b"short", b"short"], [b"long", b"long"], [b"short", b"short"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('input_data_file: "x"', 'input_data_file: "gone"'),
        ("versions: 1", "versions: 7"),
        ("max_batch_size: 4", "max_batch_size: 0"),
        ('name: "double"', 'name: "other"'),
    ],
)
def test_what_verify_finds_in_a_configuration_the_server_refuses(
    unpacked: Unpacked, serving: Serving, *, old: str, new: str
) -> None:
    (double, _) = PYTHON
    folder = unpacked(double)
    path = folder.root / "double/config.pbtxt"
    whole = path.read_text()
    assert old in whole
    path.write_text(whole.replace(old, new, 1))
    with pytest.raises(AssertionError, match="double"), serving(folder.root, double):
        pass


@pytest.mark.parametrize("model", [*ONNX, *TORCH, *MIXED], ids=lambda model: model.name)
def test_models_of_other_backends_load_too(unpacked: Unpacked, serving: Serving, *, model: Model) -> None:
    needed = {model.runtime.backend, *(step.backend for step in model.runtime.steps)} - {"ensemble"}
    if missing := sorted(needed - {path.name for path in (SERVER / "backends").iterdir()}):
        pytest.skip(f"{model.name}: not loaded here: the wheel has no {' and no '.join(missing)} backend")
    with serving(unpacked(model).root, model) as client:
        assert client.is_model_ready(model.name)
