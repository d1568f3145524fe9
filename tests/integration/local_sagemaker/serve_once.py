"""A process that hosts SageMaker as a gateway does, for tests that kill it: STATE_DIR AWS_URL FAKE_SERVER."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from local.sagemaker.app import create_app
from local.sagemaker.options import Options
from local.settings import LocalSettings


def main() -> None:
    state_dir, aws_url, fake = sys.argv[1:]
    app = create_app(
        LocalSettings(state_dir=Path(state_dir), s3_endpoint_url=aws_url),
        options=Options(server_command=(sys.executable, fake)),
    )
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="info", lifespan="on"))
    server.run()


if __name__ == "__main__":
    main()
