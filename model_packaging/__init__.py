"""."""

import serving  # noqa: F401 - silences ONNX Runtime before any module here imports it
