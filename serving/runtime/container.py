"""What SageMaker tells a container: its environment variables, its folders and the name of its entry.

Sources: *Custom Inference Code with Hosting Services* and *Multi-container endpoints* (SageMaker developer guide),
sagemaker-inference-toolkit, src/sagemaker_inference/{environment,parameters}.py; for the model's name
triton-inference-server/server, docker/sagemaker/serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ServerError

BASE = "/opt/ml"
PORT = 8080
_MOST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The port of the container contract, others it may use, where models are, and which is asked for."""

    port: int = PORT
    safe_ports: tuple[int, int] | None = None
    """The first and the last port for anything that is not SageMaker's; nothing: any free one."""
    multi_model: bool = False
    model_name: str | None = None
    """The folder of the archive that is the model; nothing: the only one."""
    base: Path = Path(BASE)

    @property
    def model(self) -> Path:
        """Where SageMaker unpacks the archive of the only model."""
        return self.base / "model"

    @property
    def models(self) -> Path:
        """Below which SageMaker puts the models of a multi-model endpoint."""
        return self.base / "models"


def container(environ: Mapping[str, str]) -> Container:
    """Read the variables of a container.

    Raises:
        ServerError: one of them has a value that SageMaker does not give.

    """
    return Container(
        port=_port("SAGEMAKER_BIND_TO_PORT", environ.get("SAGEMAKER_BIND_TO_PORT", str(PORT))),
        safe_ports=_range(environ.get("SAGEMAKER_SAFE_PORT_RANGE", "")),
        multi_model=_flag("SAGEMAKER_MULTI_MODEL", environ.get("SAGEMAKER_MULTI_MODEL", "")),
        model_name=environ.get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME") or None,
        base=Path(environ.get("SAGEMAKER_BASE_DIR", BASE)),
    )


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST_PORT):
        raise ServerError(f"{name}: got {text!r}; allowed 1 to {_MOST_PORT}; correct the variable")
    return int(text)


def _range(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, _, last = text.partition("-")
    low, high = (_port("SAGEMAKER_SAFE_PORT_RANGE", each) for each in (first, last))
    if low > high:
        raise ServerError(f"SAGEMAKER_SAFE_PORT_RANGE: got {text!r}; allowed FIRST-LAST; correct the variable")
    return low, high


def _flag(name: str, text: str) -> bool:
    if text.lower() not in {"", "true", "false"}:
        raise ServerError(f"{name}: got {text!r}; allowed true or false; correct the variable")
    return text.lower() == "true"
