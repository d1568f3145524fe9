"""What runs in this server, without one: every archive of the zoo, and what Triton promises to a Python model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_packaging.build import package, package_path
from serving.errors import ArchiveError, InvalidRequestError, ModelFailedError
from serving.protocol import codec
from serving.protocol.archive import ModelFolder, unpack
from serving.protocol.served import ServedModel
from serving.runtime.checks import RequestCheck
from serving.runtime.ensemble import Ensemble, Step
from serving.runtime.loading import caps_of, load
from serving.runtime.python_model import PythonModel, PythonPart
from serving.runtime.runner import Runner
from serving.runtime.threads import AskedThreads
from serving.spec.runtime import EnsembleStepSpec
from tests.unit.packaging.zoo import MIXED, ONNX, PYTHON, TORCH, X2, Model, tensor

ZOO = {model.name: model for model in (*ONNX, *PYTHON, *MIXED, *TORCH)}
REFUSED = {
    "ragged": "the ragged input tokens",
    "brain": "x of BF16",
    "scripted": "the Triton backend pytorch",
    "compiled": "the Triton backend pytorch",
}
ONE_THREAD = AskedThreads(cores=1)


@pytest.fixture(name="unpacked")
def unpacked_fixture(tmp_path: Path) -> Callable[[Model], ModelFolder]:
    def make(model: Model) -> ModelFolder:
        folder = tmp_path / model.name
        (folder / "samples").mkdir(parents=True)
        (folder / "samples/request.json").write_bytes(model.sample)
        package(model.spec, "1.0.0", model_dir=folder, out_dir=tmp_path, image="image:1", weights=model.write(folder))
        return unpack(package_path(tmp_path, model.spec, "1.0.0"), tmp_path / "unpacked")

    return make


@pytest.mark.parametrize("name", [name for name in ZOO if name not in REFUSED])
def test_every_archive_that_this_server_runs_answers_its_sample_in_the_shape_of_its_spec(
    unpacked: Callable[[Model], ModelFolder], name: str
) -> None:
    folder = unpacked(ZOO[name])
    served = folder.served
    caps = caps_of(served)
    runner = load(folder, caps, threads=ONE_THREAD).runner
    request = codec.decode_request(ZOO[name].sample, content_type=codec.JSON_TYPE)
    check = RequestCheck(served, max_rows=caps.max_rows)
    arrays = check.arrays(request)
    outputs = runner.run(arrays)
    rows = [check.rows(arrays)] if ZOO[name].runtime.max_batch_size else []
    assert [list(output.shape) for output in outputs] == [[*rows, *spec.shape] for spec in served.outputs]
    runner.close()


@pytest.mark.parametrize("name", REFUSED)
def test_what_this_server_does_not_run_it_names(name: str) -> None:
    with pytest.raises(ArchiveError, match=REFUSED[name]):
        caps_of(ServedModel.of(ZOO[name].spec, version="1.0.0"))


Made = Callable[..., PythonModel]


@pytest.fixture(name="made")
def made_fixture(tmp_path: Path) -> Iterator[Made]:
    """Load a Python model of `x` to `y`, both [-1, 2] of FP32, from the body of its class."""
    models: list[PythonModel] = []

    def make(body: str, *, beside: dict[str, str] | None = None, **changes: Any) -> PythonModel:
        folder = tmp_path / f"m{len(models)}" / "1"
        folder.mkdir(parents=True)
        head = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"
        (folder / "model.py").write_text(head + body)
        for name, text in (beside or {}).items():
            (folder / name).write_text(text)
        part = PythonPart(
            name="m",
            version="1.0.0",
            file=folder / "model.py",
            inputs=(X2,),
            outputs=(tensor("y", "FP32", 2),),
            max_rows=4,
            instances=1,
        )
        models.append(PythonModel(replace(part, **changes)))
        return models[-1]

    yield make
    for model in models:
        model.close()


DOUBLE = """
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if (x < 0).any():
                error = pb_utils.TritonError("x is below 0"{code})
                answers.append(pb_utils.InferenceResponse([], error))
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x * len(requests))]))
        return answers
"""
ROWS = np.array([[1, 2]], dtype=np.float32)


def answers(model: Runner, *requests: Any) -> Any:
    assert model.separate is not None
    return model.separate([[request] for request in requests])


def test_execute_sees_each_request_of_a_batch_alone(made: Made) -> None:
    first, second = answers(made(DOUBLE.format(code="")), ROWS, np.repeat(ROWS, 3, axis=0))
    np.testing.assert_array_equal(first[0], ROWS * 2)
    np.testing.assert_array_equal(second[0], np.repeat(ROWS, 3, axis=0) * 2)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("", ModelFailedError), (", pb_utils.TritonError.INVALID_ARG", InvalidRequestError)],
)
def test_an_error_of_one_request_is_its_own(made: Made, code: str, kind: type[Exception]) -> None:
    good, bad, other = answers(made(DOUBLE.format(code=code)), ROWS, -ROWS, ROWS)
    np.testing.assert_array_equal(good[0], ROWS * 3)
    np.testing.assert_array_equal(other[0], ROWS * 3)
    assert type(bad) is kind
    assert "x is below 0" in str(bad)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("None", "got NoneType from execute"),
        ("[]", "got 0 responses"),
        ("[7]", "got a int from execute"),
        ("[pb_utils.InferenceResponse([])]", "output 'y': got none"),
        ('[pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros((1, 2)))])]', "got float64"),
        ('[pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros((3, 2), np.float32))])]', r"got float32 \[3, 2\]"),
        (
            '[pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros((1, 3), np.float32))])]',
            r"allowed FP32 \[1, 2\]",
        ),
        ('[pb_utils.InferenceResponse([pb_utils.Tensor("y", [1.0])])]', "got a list; allowed a numpy array"),
    ],
)
def test_an_answer_that_its_spec_does_not_say_is_the_model_s_fault(made: Made, returned: str, text: str) -> None:
    model = made(f"class TritonPythonModel:\n    def execute(self, requests):\n        return {returned}\n")
    with pytest.raises(ModelFailedError, match=text):
        model.run([ROWS])


def test_what_execute_raises_fails_all_that_it_was_given(made: Made) -> None:
    model = made("class TritonPythonModel:\n    def execute(self, requests):\n        raise KeyError('colour')\n")
    with pytest.raises(ModelFailedError, match="KeyError: 'colour'"):
        answers(model, ROWS, ROWS)


def test_initialize_gets_what_triton_gives_it_and_finalize_is_called_once(made: Made, tmp_path: Path) -> None:
    log = tmp_path / "log"
    body = f"""
import json
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        kind = pb_utils.get_output_config_by_name(config, "y")["data_type"]
        row = dict(args, kind=str(pb_utils.triton_string_to_numpy(kind).__name__))
        self.write(json.dumps(row))
    def write(self, line):
        with open({str(log)!r}, "a") as log:
            log.write(line + "\\n")
    def execute(self, requests):
        return []
    def finalize(self):
        self.write("{{}}")
"""
    made(body).close()
    given, finalized = map(json.loads, log.read_text().splitlines())
    config = json.loads(given["model_config"])
    assert finalized == {}
    assert given["kind"] == "float32"
    assert (given["model_name"], given["model_version"], given["model_instance_kind"]) == ("m", "1", "CPU")
    assert config["max_batch_size"] == 4
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]


def test_instances_answer_at_the_same_time_but_none_twice_at_once(made: Made) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    model = made(
        """
import threading
met = threading.Barrier(2, timeout=20)
class TritonPythonModel:
    def initialize(self, args):
        self.busy = False
    def execute(self, requests):
        assert not self.busy
        self.busy = True
        met.wait()
        self.busy = False
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", requests[0].inputs()[0].as_numpy())])]
""",
        instances=2,
    )
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.run([ROWS]), range(4)):
            np.testing.assert_array_equal(found[0], ROWS)


def test_modules_beside_two_models_are_not_mixed_up(made: Made) -> None:
    body = """
import words
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", np.full((1, 2), words.FACTOR, np.float32))])]
"""
    one, two = (made(body, beside={"words.py": f"FACTOR = {factor}"}) for factor in (1, 2))
    assert one.run([ROWS])[0][0, 0] == 1
    assert two.run([ROWS])[0][0, 0] == 2
    assert "words" not in sys.modules


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError when it was imported"),
        ("x = 1", "no class TritonPythonModel"),
        (
            "class TritonPythonModel:\n    def initialize(self, args):\n        1 / 0",
            "ZeroDivisionError when it was initial",
        ),
    ],
)
def test_a_model_that_does_not_start_says_why(made: Made, body: str, text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        made(body)


def test_bytes_reach_a_python_model_as_they_are_and_texts_become_bytes(made: Made) -> None:
    model = made(
        """
class TritonPythonModel:
    def execute(self, requests):
        (raw,) = requests[0].inputs()[0].as_numpy().ravel()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([[str(len(raw))]]))])]
""",
        inputs=(tensor("x", "BYTES", 1),),
        outputs=(tensor("y", "BYTES", 1),),
    )
    jpeg = b"\xff\xd8\xff\x00"
    (found,) = model.run([np.array([[jpeg]], dtype=np.object_)])
    assert found.tolist() == [[b"4"]]


class _Recorder(Runner):
    """Adds one, refuses what is above 100, and remembers the rows of each run."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def run(self, arrays: Any) -> Any:
        self.rows.append(len(arrays[0]))
        if (arrays[0] > 100).any():
            raise ModelFailedError("above 100")
        return [arrays[0] + 1]


def test_a_request_that_a_step_refuses_fails_alone_and_goes_no_further() -> None:
    first, second = _Recorder(), _Recorder()
    wired = [
        EnsembleStepSpec(
            name=name, backend="onnxruntime", inputs=(X2,), outputs=(X2,), reads={"x": read}, writes={"x": written}
        )
        for name, read, written in (("a", "x", "between"), ("b", "between", "label"))
    ]
    served = replace(ServedModel.of(MIXED[0].spec, version="1.0.0"), inputs=(X2,))
    ensemble = Ensemble(
        served, [Step.of(spec, each, batched=True) for spec, each in zip(wired, (first, second), strict=True)]
    )
    good, bad, other = answers(ensemble, ROWS, ROWS * 100, ROWS)
    np.testing.assert_array_equal(good[0], ROWS + 2)
    np.testing.assert_array_equal(other[0], ROWS + 2)
    assert str(bad) == "above 100"
    assert first.rows == [3, 1, 1, 1]
    assert second.rows == [2]
