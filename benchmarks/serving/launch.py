"""The command line of each server, with the files it wants around it; nothing here starts a process."""

from __future__ import annotations

import ctypes.util
import json
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.serving.models import MAX_ROWS, BenchModel
from serving.errors import BenchmarkError
from serving.protocol.tensors import DTYPES

SERVERS = Path(__file__).parent / "servers"
_JAVA_HEAP = "-Xms256m -Xmx1g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where one server is set up: its Python, the model, its window, a port and a folder of its own."""

    python: Path
    model: BenchModel
    graph: Path
    archive: Path
    answer: Path
    window_ms: float
    port: int
    spare_ports: tuple[int, ...]
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Give what `servers/graph.py` reads."""
        return {
            "BENCH_MODEL": str(self.graph),
            "BENCH_DTYPE": DTYPES[self.model.dtype].name,
            "BENCH_ROW": ",".join(map(str, self.model.row)),
            "BENCH_WINDOW_MS": f"{self.window_ms:g}",
            "BENCH_MAX_ROWS": str(MAX_ROWS),
            "BENCH_PORT": str(self.port),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start; `environment` is added to the benchmark's own."""

    arguments: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def streamhub(site: Site) -> Command:
    """Give our server on the packaged archive."""
    arguments = ["-m", "serving.runtime", "--archive", str(site.archive), "--port", str(site.port), "--threads", "1"]
    return Command(arguments=[sys.executable, *arguments])


def noop(site: Site) -> Command:
    """Give the floor of our HTTP stack."""
    return Command(arguments=[sys.executable, "-m", "benchmarks.serving.noop", str(site.port), str(site.answer)])


def script(name: str) -> Callable[[Site], Command]:
    """Give a server that is one script."""
    return lambda site: Command(
        arguments=[str(site.python), str(SERVERS / name)],
        environment={
            **site.environment,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            "PYTHONPATH": str(SERVERS),
        },
    )


def bentoml(site: Site) -> Command:
    """Give BentoML's own command."""
    serve = ["serve", "with_bentoml:Scores", "--port", str(site.port), "--host", "127.0.0.1"]
    return Command(
        arguments=[str(site.python), "-m", "bentoml", *serve, "--working-dir", str(SERVERS)],
        environment={**site.environment, "BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": str(site.folder)},
    )


def mlserver(site: Site) -> Command:
    """Give MLServer on a folder with its two settings files; in process, which is faster than its worker pool."""
    http, grpc, metrics = site.port, *site.spare_ports[:2]
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "metrics_endpoint": None,
        "parallel_workers": 0,
        "debug": False,
        "use_structured_logging": False,
    }
    model = {
        "name": "bench",
        "implementation": "with_mlserver.Scores",
        "max_batch_size": MAX_ROWS,
        "max_batch_time": site.window_ms / 1e3,
    }
    (site.folder / "settings.json").write_text(json.dumps(settings))
    (site.folder / "model-settings.json").write_text(json.dumps(model))
    return Command(
        arguments=[str(site.python.parent / "mlserver"), "start", str(site.folder)],
        environment={**site.environment, "PYTHONPATH": str(SERVERS)},
    )


def torchserve(site: Site) -> Command:
    """Give TorchServe on an unpacked archive of one handler.

    Its worker imports torch for messages that are not sent here; `servers/without_torch` stands in for it.
    """
    store = site.folder / "store/bench"
    (store / "MAR-INF").mkdir(parents=True)
    for name in ("with_torchserve.py", "graph.py"):
        shutil.copy2(SERVERS / name, store)
    model = {"modelName": "bench", "handler": "with_torchserve.py", "modelVersion": "1.0"}
    manifest = {"runtime": "python", "archiverVersion": "0.12.0", "model": model}
    (store / "MAR-INF/MANIFEST.json").write_text(json.dumps(manifest))
    config = site.folder / "config.properties"
    config.write_text(_torchserve_config(site))
    launched = ["--start", "--foreground", "--ncs", "--model-store", str(store.parent), "--disable-token-auth"]
    path = [str(SERVERS / "without_torch"), str(site.python.parent.parent / "bin")]
    return Command(
        arguments=[
            str(site.python.parent / "torchserve"),
            *launched,
            "--ts-config",
            str(config),
            "--log-config",
            str(SERVERS / "log4j2.xml"),
        ],
        environment={
            **site.environment,
            "PYTHONPATH": path[0],
            "LOG_LOCATION": str(site.folder),
            "METRICS_LOCATION": str(site.folder),
            "TEMP": str(site.folder),
        },
    )


def _torchserve_config(site: Site) -> str:
    management, metrics, grpc, grpc_management = site.spare_ports[:4]
    model = {
        "defaultVersion": True,
        "marName": "bench",
        "minWorkers": 1,
        "maxWorkers": 1,
        "batchSize": MAX_ROWS,
        "maxBatchDelay": max(1, round(site.window_ms)),
        "responseTimeout": 60,
    }
    return "\n".join(
        [
            f"inference_address=http://127.0.0.1:{site.port}",
            f"management_address=http://127.0.0.1:{management}",
            f"metrics_address=http://127.0.0.1:{metrics}",
            f"grpc_inference_port={grpc}",
            f"grpc_management_port={grpc_management}",
            f"vmargs={_JAVA_HEAP}",
            "disable_system_metrics=true",
            "job_queue_size=2000",
            f"python_executable={site.python}",
            "load_models=bench",
            "models=" + json.dumps({"bench": {"1.0": model}}),
            "",
        ]
    )


def triton(site: Site) -> Command:
    """Give NVIDIA's server out of the wheel, on a repository with one Python model.

    The stub loads libpython and a standard library without anybody's packages (tests/train/test_triton_server.py).
    """
    packages = next(site.python.parents[1].glob("lib/python3.*/site-packages"))
    wheel = packages / "pytriton/tritonserver"
    backends = _triton_backends(site, packages, wheel)
    repository = site.folder / "repository"
    (repository / site.model.name / "1").mkdir(parents=True)
    shutil.copy2(SERVERS / "with_triton.py", repository / site.model.name / "1/model.py")
    (repository / site.model.name / "config.pbtxt").write_text(_triton_config(site))
    return Command(
        arguments=[
            str(wheel / "bin/tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--disable-auto-complete-config",
            "--http-address=127.0.0.1",
            f"--http-port={site.port}",
            "--http-thread-count=1",
            "--allow-grpc=false",
            "--allow-metrics=false",
            "--log-info=false",
        ],
        environment={
            **site.environment,
            **_triton_interpreter(site, packages),
            "BENCH_PATHS": f"{SERVERS}:{packages}",
        },
    )


def _triton_backends(site: Site, packages: Path, wheel: Path) -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = wheel / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        raise BenchmarkError(f"triton: got Python {version}; allowed a Python that the wheel has a stub for")
    backend = site.folder / "backends/python"
    shutil.copytree(wheel / "backends/python", backend)
    shutil.copy2(stub, backend)
    for name in ("numpy", "numpy.libs"):
        (backend / name).symlink_to(packages / name)
    return backend.parent


def _triton_interpreter(site: Site, packages: Path) -> dict[str, str]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = Path(sysconfig.get_config_var("LIBDIR")) / f"libpython{version}.so.1.0"
    of_the_system = ctypes.util.find_library(f"python{version}") is not None
    if not own.is_file() and not of_the_system:
        raise BenchmarkError(f"triton: got no libpython{version}.so; install it (Debian: libpython{version})")
    stdlib = Path(f"/usr/lib/python{version}") if of_the_system else Path(sysconfig.get_path("stdlib"))
    bare = site.folder / "home/lib" / f"python{version}"
    bare.mkdir(parents=True)
    for path in stdlib.iterdir():
        if path.name not in {"site-packages", "dist-packages"}:
            (bare / path.name).symlink_to(path)
    libraries = [packages / "nvidia_pytriton.libs", *([] if of_the_system else [own.parent])]
    return {"PYTHONHOME": str(site.folder / "home"), "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _triton_config(site: Site) -> str:
    model = site.model
    row = ", ".join(map(str, model.row))
    return (
        f'name: "{model.name}"\nbackend: "python"\nmax_batch_size: {MAX_ROWS}\n'
        f'input [ {{ name: "x" data_type: TYPE_{model.dtype.value} dims: [ {row} ] }} ]\n'
        f'output [ {{ name: "y" data_type: TYPE_FP32 dims: [ {model.outputs} ] }} ]\n'
        f"dynamic_batching {{ max_queue_delay_microseconds: {round(site.window_ms * 1000)} }}\n"
        "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    )
