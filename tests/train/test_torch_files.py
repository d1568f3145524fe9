"""What torch itself writes: the files that Triton's PyTorch backend takes, and those that look like them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-train, which installs it")

from model_packaging.backend_files import file_problems, served_name  # noqa: E402 - only once torch is known to be there
from model_packaging.triton_config import TritonModel  # noqa: E402
from serving.protocol.served import ServedModel  # noqa: E402
from tests.unit.packaging.zoo import TORCH  # noqa: E402

pytestmark = [
    pytest.mark.train,
    # PyTorch deprecates TorchScript, which the backend still takes; its compiler uses what Python deprecates
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def told(path: Path, *, device: str = "cpu") -> list[str]:
    spec = TORCH[0].spec
    model = TritonModel.whole(
        ServedModel.of(spec, version="1.0.0"), TORCH[0].runtime, file=served_name("pytorch", path)
    )
    return list(file_problems(replace(model, device=device), path))


@pytest.fixture(name="network")
def network_fixture() -> Any:
    return torch.nn.Linear(2, 1).eval()


@pytest.fixture(name="exported")
def exported_fixture(network: Any) -> Any:
    rows = {0: torch.export.Dim("rows", min=1, max=8)}
    return torch.export.export(network, (torch.zeros(2, 2),), dynamic_shapes=(rows,))


def test_torchscript_is_taken_and_a_state_dict_is_not(network: Any, tmp_path: Path) -> None:
    torch.jit.trace(network, torch.zeros(1, 2)).save(tmp_path / "script.pt")
    assert told(tmp_path / "script.pt") == []
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    assert any("weights without code" in problem for problem in told(tmp_path / "weights.pt"))


def test_a_compiled_package_is_taken_for_its_own_device_alone(exported: Any, tmp_path: Path) -> None:
    torch.export.save(exported, tmp_path / "program.pt2")
    assert any("exported program, not compiled" in problem for problem in told(tmp_path / "program.pt2"))
    path = tmp_path / "compiled.pt2"
    torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    assert told(path) == []
    assert any("compiled for cpu; allowed cuda" in problem for problem in told(path, device="gpu"))
