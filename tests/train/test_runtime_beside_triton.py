"""The same archives in NVIDIA's tritonserver and in this project's server, asked the same: the answers are equal.

The wheel's server has the Python backend alone, so Python models and ensembles of them are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from serving.protocol.archive import ModelFolder
from tests.integration.runtime.conftest import serving as ours
from tests.train import test_triton_server as triton
from tests.train.test_triton_server import asked
from tests.unit.packaging.zoo import PYTHON, Model, python

pytestmark = pytest.mark.train

backends_fixture = triton.backends_fixture
interpreter_fixture = triton.interpreter_fixture
serving_fixture = triton.serving_fixture
unpacked_fixture = triton.unpacked_fixture

REFUSES = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.scale = float(args["model_version"]) * len(args["model_name"])

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if (x < 0).any():
                error = pb_utils.TritonError("x is below 0", pb_utils.TritonError.INVALID_ARG)
                answers.append(pb_utils.InferenceResponse([], error))
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", (x * self.scale).astype(np.float32))]))
        return answers
"""
(DOUBLE, LABELS) = PYTHON
REFUSING = replace(DOUBLE, name="refusing", write=python(REFUSES))

Serving = Callable[[Path, Model], AbstractContextManager[Any]]


def both(model: Model, folder: ModelFolder, serving: Serving, requests: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Ask both servers each request; gives pairs of Triton's answer and ours, errors as their texts."""
    with serving(folder.root, model) as client:
        theirs = [_answer(client, model, request) for request in requests]
    with ours(folder.root) as server:
        client = triton_http.InferenceServerClient(f"127.0.0.1:{server.port}")
        mine = [_answer(client, model, request) for request in requests]
        client.close()
    return list(zip(theirs, mine, strict=True))


def _answer(client: Any, model: Model, arrays: dict[str, Any]) -> Any:
    try:
        return asked(client, model, arrays)
    except InferenceServerException as error:
        return str(error.message())


@pytest.mark.parametrize("model", [DOUBLE, REFUSING], ids=lambda model: model.name)
def test_numbers_are_equal(unpacked: Callable[[Model], ModelFolder], serving: Serving, model: Model) -> None:
    random = np.random.default_rng(5)
    requests = [{"x": random.random((rows, 2), dtype=np.float32)} for rows in (1, 2, 4)]
    for theirs, mine in both(model, unpacked(model), serving, requests):
        np.testing.assert_array_equal(mine["y"], theirs["y"])


def test_texts_through_an_ensemble_are_equal(unpacked: Callable[[Model], ModelFolder], serving: Serving) -> None:
    texts = ["", "hello", "a sentence", "grüße", "日本語です", "123456789", "1234567890"]
    requests = [{"text": np.array([[text]], dtype=np.object_)} for text in texts]
    requests.append({"text": np.array([[text] for text in texts[1:5]], dtype=np.object_)})
    for theirs, mine in both(LABELS, unpacked(LABELS), serving, requests):
        assert mine["label"].tolist() == theirs["label"].tolist()


def test_a_request_that_the_model_refuses_is_refused_with_its_words(
    unpacked: Callable[[Model], ModelFolder], serving: Serving
) -> None:
    requests = [{"x": np.array([[-1, 2]], dtype=np.float32)}]
    ((theirs, mine),) = both(REFUSING, unpacked(REFUSING), serving, requests)
    assert "x is below 0" in theirs
    assert "x is below 0" in mine
