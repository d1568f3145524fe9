"""The list of loaded models in pages, as SageMaker's contract of multi-model containers has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from serving.runtime.admin import Admin
from serving.runtime.exchange import Head


class _Place:
    """The connection of one exchange: keeps what is answered."""

    def __init__(self, path: str) -> None:
        self.head = Head()
        self.head.method, self.head.path = b"GET", path.encode()

    def answer(self, status: int, body: bytes) -> None:
        assert status == 200
        self.document = orjson.loads(body)


def admin_of(names: list[str]) -> Admin:
    repository: Any = [SimpleNamespace(name=name) for name in names]
    residency: Any = SimpleNamespace(repository=repository, source=lambda name: f"/opt/ml/models/{name}/model")
    infer: Any = None
    root: Any = "/opt/ml/models"
    return Admin(residency, infer=infer, models_root=root)


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_pages_hold_each_model_once_and_the_last_has_no_token(count: int) -> None:
    names = [f"m&{number:03} +ü" for number in range(count)]
    admin = admin_of(names[::-1])
    found: list[str] = []
    token = ""
    pages = 0
    while True:
        exchange: Any = _Place(f"/models?next_page_token={quote(token)}" if token else "/models")
        handler = admin.route(exchange.head)
        assert handler is not None
        handler(exchange)
        rows = exchange.document["models"]
        found += [row["modelName"] for row in rows]
        assert all(row["modelUrl"] == f"/opt/ml/models/{row['modelName']}/model" for row in rows)
        pages += 1
        token = exchange.document.get("nextPageToken", "")
        if not token:
            break
    assert found == names
    assert pages == max(1, -(-count // 100))
