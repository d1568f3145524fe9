"""`python -m local.gateway`: AWS on one loopback port, in one process.

SageMaker and Application Auto Scaling are ours, everything else is ministack.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import socket
import sys
from pathlib import Path

import uvicorn

from local import ministack_adapter
from local.absent import Absent
from local.alarm_watch import AlarmWatch
from local.autoscaling import create_app as create_autoscaling
from local.clock import SystemClock
from local.listener import HOST, AnnouncingServer, bind
from local.ministack_cloudwatch import CloudWatch
from local.page.wiring import create_app as create_page
from local.resource_types import Target, client, resource_types
from local.routing import Asgi, Gateway, Service
from local.sagemaker.app import create_app as create_sagemaker
from local.scaling_watch import ScalingWatch
from local.settings import DEFAULT_ACCOUNT, DEFAULT_REGION, LocalSettings
from serving.errors import LocalStackError

_GRACE_S = 5


def create_gateway(
    settings: LocalSettings, *, port: int, valkey_port: int, stage: str, scales: bool = False
) -> Gateway:
    """Wire the services of one gateway; `port` is where it will answer, since services call each other there.

    With `scales`, Application Auto Scaling changes counts; without, it only remembers what is registered.

    Raises:
        LocalStackError: ministack is another version than the pinned one.

    """
    ministack_adapter.configure(
        port=port,
        valkey_port=valkey_port,
        region=settings.region,
        account=settings.account,
        state_dir=settings.state_dir,
    )
    target = Target(endpoint_url=settings.s3_endpoint_url, region=settings.region)
    other = Absent(ministack_adapter.application(resource_types(target)), account=settings.account)
    scaling, clock = create_autoscaling(settings), SystemClock()
    services: dict[Service, Asgi] = {
        "other": other,
        "sagemaker": create_sagemaker(settings, scaled=scaling.holds, clock=clock),
        "application-autoscaling": scaling,
        "page": create_page(settings, stage=stage, root=Path(), clock=clock),
    }
    watch = AlarmWatch(CloudWatch(region=settings.region, account=settings.account), clock=clock)
    scaler = ScalingWatch(
        scaling,
        sagemaker=client("sagemaker", target),
        cloudwatch=client("cloudwatch", target),
        clock=clock,
    )
    return Gateway(services, tasks=(watch.run, scaler.run) if scales else (watch.run,))


class _Server(AnnouncingServer):
    """Opens the gateway before the first request and closes it while it still answers."""

    def __init__(self, config: uvicorn.Config, *, gateway: Gateway, port: int) -> None:
        super().__init__(config, port=port)
        self._gateway = gateway

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._gateway.open()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._gateway.close()
        await super().shutdown(sockets)


def serve(listener: socket.socket, settings: LocalSettings, *, valkey_port: int, stage: str, scales: bool) -> None:
    """Answer until SIGTERM."""
    port = int(listener.getsockname()[1])
    gateway = create_gateway(settings, port=port, valkey_port=valkey_port, stage=stage, scales=scales)
    config = uvicorn.Config(
        gateway,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,  # ministack sends its own, and two of them stop the SDK for JavaScript
        timeout_graceful_shutdown=_GRACE_S,
    )
    _Server(config, gateway=gateway, port=port).run(sockets=[listener])


def main(argv: list[str] | None = None) -> int:
    """Run the gateway; 1 when it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m local.gateway", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder for what the services keep")
    parser.add_argument("--port", type=int, default=0, help="loopback port, 0 for a free one")
    parser.add_argument("--valkey-port", type=int, required=True, help="where the feature cache answers")
    parser.add_argument("--stage", default="dev", help="the stage that the page shows")
    parser.add_argument("--region", default=DEFAULT_REGION, help="the region of everything")
    parser.add_argument("--scale", action="store_true", help="let Application Auto Scaling change counts")
    parser.add_argument("--account", default=DEFAULT_ACCOUNT, help="the account of everything")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("local").setLevel(logging.INFO)
    try:
        with contextlib.closing(bind(arguments.port)) as listener:
            settings = LocalSettings(
                state_dir=arguments.state,
                s3_endpoint_url=f"http://{HOST}:{listener.getsockname()[1]}",
                region=arguments.region,
                account=arguments.account,
            )
            serve(
                listener,
                settings,
                valkey_port=arguments.valkey_port,
                stage=arguments.stage,
                scales=arguments.scale,
            )
    except LocalStackError as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
