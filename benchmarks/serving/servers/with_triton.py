"""Triton's Python backend: one execution joins the requests of a batch, runs them once and takes them apart."""

from __future__ import annotations

import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """What the backend's stub calls."""

    def initialize(self, args):
        """Load; the interpreter of the stub has no packages of its own."""
        sys.path[:0] = os.environ["BENCH_PATHS"].split(":")
        from graph import Graph  # noqa: PLC0415 - found by the line above

        self._graph = Graph()

    def execute(self, requests):
        """Give an answer for each request."""
        rows = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        scores = self._graph.run(np.concatenate(rows) if len(rows) > 1 else rows[0])
        ends = np.cumsum([len(each) for each in rows])[:-1]
        answers = np.split(scores, ends) if len(rows) > 1 else [scores]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", each)]) for each in answers]
