"""The core: what serving a model means, importable anywhere, without AWS."""

import os

# ONNX Runtime's wheels report to their maker from 1.29 on; its Privacy.md says that only this variable, set before the
# first import, stops all of it
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
