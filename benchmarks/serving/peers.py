"""The servers that are compared: what each needs installed, how it is started, and how it is asked at its fastest.

Versions are pinned; each gets an environment of its own (`environments.py`). One worker each, since every server has
one core. A *setting* is a window in ms in which a batch gathers: `best` is the one that answers fastest at any load
that was tried, `window` is 32 rows within 10 ms for all that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.serving import launch
from benchmarks.serving.launch import Command, Site
from benchmarks.serving.models import WINDOW_MS
from benchmarks.serving.wires import (
    BASE64_JSON,
    LIST_JSON,
    NESTED_JSON,
    OIP_BINARY,
    OIP_JSON,
    RAW,
    Kind,
    Wire,
)

Setting = Literal["best", "window"]

ORT = "onnxruntime==1.32.0"
ORJSON = "orjson==3.13.0"
NUMPY = "numpy==2.4.6"

OURS = "streamhub"
NOOP = "no-op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where and how one kind of body is asked."""

    path: str
    wire: Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One server of the comparison.

    `requirements` are pip's, `()` for what the project's own environment runs; `programs` must be on the path.
    `windows_ms` maps a setting to its window; each kind of body is asked for `warm_s` before anything is measured.
    `alone` is a server that works while it is idle and does not stand being stopped: it runs before the others start.
    """

    name: str
    version: str
    command: Callable[[Site], Command]
    routes: Mapping[Kind, Route]
    requirements: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    windows_ms: Mapping[Setting, float] = field(default_factory=lambda: {"best": 0, "window": WINDOW_MS})
    warm_s: float = 0.3
    alone: bool = False
    note: str = ""


def _routes(json: tuple[str, Wire], binary: tuple[str, Wire] | None = None) -> dict[Kind, Route]:
    routes: dict[Kind, Route] = {"json": Route(path=json[0], wire=json[1])}
    if binary is not None:
        routes["binary"] = Route(path=binary[0], wire=binary[1])
    return routes


_INFER = "/v2/models/{model}/infer"
_LISTS_AND_BYTES = _routes(("/json", LIST_JSON), ("/raw", RAW))
_ONE: Mapping[Setting, float] = {"best": 0}

ALL: tuple[Peer, ...] = (
    Peer(
        name=OURS,
        version="",
        command=launch.streamhub,
        routes=_routes((_INFER, OIP_JSON), (_INFER, OIP_BINARY)),
        windows_ms=_ONE,
    ),
    Peer(
        name=NOOP,
        version="",
        command=launch.noop,
        routes=_routes((_INFER, OIP_JSON), (_INFER, OIP_BINARY)),
        windows_ms=_ONE,
        note="reads the request, answers constant bytes",
    ),
    Peer(
        name="triton",
        version="2.51.0",
        command=launch.triton,
        routes=_routes((_INFER, OIP_JSON), (_INFER, OIP_BINARY)),
        requirements=("nvidia-pytriton==0.7.0", "numpy==1.26.4", ORT),
        note="the Python backend over ONNX Runtime; no package carries the C++ ONNX backend",
    ),
    Peer(
        name="mosec",
        version="0.9.8",
        command=launch.script("with_mosec.py"),
        routes=_LISTS_AND_BYTES,
        requirements=("mosec==0.9.8", ORT, NUMPY, ORJSON),
        windows_ms={"best": 1, "window": WINDOW_MS},
    ),
    Peer(
        name="fastapi",
        version="0.165.0",
        command=launch.script("with_fastapi.py"),
        routes=_LISTS_AND_BYTES,
        requirements=(
            "fastapi==0.165.0",
            "uvicorn==0.55.0",
            "uvloop==0.23.0",
            "httptools==0.9.0",
            ORT,
            NUMPY,
            ORJSON,
        ),
        windows_ms=_ONE,
        note="no batches; orjson, uvloop and httptools",
    ),
    Peer(
        name="torchserve",
        version="0.12.0",
        command=launch.torchserve,
        routes=_routes(("/predictions/bench", LIST_JSON), ("/predictions/bench", RAW)),
        requirements=("torchserve==0.12.0", "pyyaml==6.0.3", ORT, NUMPY, ORJSON),
        programs=("java",),
        windows_ms={"best": 1, "window": WINDOW_MS},
        warm_s=4.0,  # until the JVM has compiled what is hot
    ),
    Peer(
        name="mlserver",
        version="1.7.1",
        command=launch.mlserver,
        routes=_routes(("/v2/models/bench/infer", OIP_JSON)),
        requirements=("mlserver==1.7.1", ORT),
        windows_ms={"best": 1, "window": WINDOW_MS},
        note="binary tensors over gRPC alone, which is not asked here",
    ),
    Peer(
        name="litserve",
        version="0.2.19",
        command=launch.script("with_litserve.py"),
        routes=_routes(("/predict", LIST_JSON), ("/predict", BASE64_JSON)),
        requirements=("litserve==0.2.19", ORT, NUMPY, ORJSON),
        windows_ms={"best": 1, "window": WINDOW_MS},
    ),
    Peer(
        name="bentoml",
        version="1.4.40",
        command=launch.bentoml,
        routes=_routes(("/predict", NESTED_JSON)),
        requirements=("bentoml==1.4.40", ORT, NUMPY, ORJSON),
        windows_ms=_ONE,
        note="its window adapts; a bound of 10 ms makes it shed, so it has its default",
    ),
    Peer(
        name="ray-serve",
        version="2.60.0",
        command=launch.script("with_ray.py"),
        routes=_LISTS_AND_BYTES,
        requirements=("ray[serve]==2.60.0", ORT, NUMPY, ORJSON),
        alone=True,
        warm_s=1.0,
        note="measured before the others, in one go: stopped for a while it loses itself; started on all cores",
    ),
)
BY_NAME: Mapping[str, Peer] = {peer.name: peer for peer in ALL}
QUICK = (OURS, NOOP, "mosec", "fastapi")
