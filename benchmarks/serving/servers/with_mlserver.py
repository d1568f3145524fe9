"""MLServer: a custom runtime over arrays; what a model-settings.json names as `with_mlserver.Scores`."""

from __future__ import annotations

from graph import DTYPE, ROW, Graph
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Scores(MLModel):
    """One tensor in, one out; MLServer joins the requests of a batch itself."""

    async def load(self):
        """Load."""
        self._graph = Graph()
        return True

    async def predict(self, payload):
        """Give the scores of the rows."""
        rows = NumpyCodec.decode_input(payload.inputs[0]).astype(DTYPE, copy=False).reshape(-1, *ROW)
        outputs = [NumpyCodec.encode_output("y", self._graph.run(rows))]
        return InferenceResponse(model_name=self.name, outputs=outputs)
