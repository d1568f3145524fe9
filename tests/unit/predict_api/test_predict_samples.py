"""Each model's `samples/api.json` is a right body of its route, and its image is one that the API decodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from serving.prediction import images, requests
from tests.fakes.prediction import spec_of

READERS: dict[str, Callable[[bytes], object]] = {
    "recommendation_ranker": lambda body: requests.rank_request(body, max_candidates=500),
    "content_moderator": requests.moderate_request,
    "thumbnail_scorer": requests.thumbnail_request,
    "support_rag": requests.support_request,
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_the_sample_of_a_model_is_a_request_of_its_route(name: str, root: Path) -> None:
    request = READERS[name]((root / "models" / name / "samples/api.json").read_bytes())
    if isinstance(request, requests.ImageRequest):
        assert request.image_base64 is not None
        spec = spec_of(name)
        height, width, _ = next(tensor.shape for tensor in spec.inputs if tensor.name == spec.api.image_input)
        tensor = images.to_tensor(images.from_base64(request.image_base64), height=height, width=width)
        assert tensor.shape == (1, height, width, 3)
