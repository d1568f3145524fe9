"""The gateway as `python -m local.gateway` runs it, with a model server of a few lines behind its endpoints."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from local import gateway
from local.sagemaker.options import Options

SERVER = Path(__file__).parents[1] / "local_sagemaker" / "fake_model_server.py"

if __name__ == "__main__":
    vars(gateway)["Options"] = partial(Options, server_command=(sys.executable, str(SERVER)))
    sys.exit(gateway.main())
