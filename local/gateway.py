"""`python -m local.gateway`: AWS on one loopback port, in one process.

SageMaker and Application Auto Scaling are ours, everything else is ministack.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvicorn

from local import ministack_adapter
from local.absent import Absent
from local.alarm_watch import INTERVAL_S as ALARM_LOOK_S
from local.alarm_watch import AlarmWatch
from local.autoscaling import AutoScalingApp
from local.cache_fault import CacheFault
from local.checkpoints import TAKE_MOMENT, Checkpoints, bring_back
from local.clock import FILE, SystemClock, look_s
from local.fault_gate import FaultGate
from local.faults import Faults
from local.kept import snapshot_of
from local.listener import HOST, AnnouncingServer, bind
from local.ministack_cloudwatch import CloudWatch
from local.ministack_memory import Memory
from local.ministack_roles import FunctionRoles, end_functions
from local.page.wiring import create_app as create_page
from local.permissions.gate import Gate
from local.resource_types import Target, client, resource_types
from local.routing import Asgi, Gateway, Service
from local.sagemaker.app import create_app as create_sagemaker
from local.sagemaker.options import Options
from local.scaling_watch import INTERVAL_S as SCALING_LOOK_S
from local.scaling_watch import ScalingWatch
from local.settings import DEFAULT_ACCOUNT, DEFAULT_REGION, LocalSettings
from serving.errors import LocalStackError

_GRACE_S = 5


def create_gateway(
    settings: LocalSettings,
    *,
    port: int,
    valkey_port: int,
    stage: str,
    valkey_pid: int | None = None,
    scales: bool = False,
    keeps: bool = False,
    processes: int = 1,
) -> tuple[Gateway, Checkpoints]:
    """Wire the services of one gateway; `port` is where it will answer, since services call each other there.

    With `scales`, Application Auto Scaling changes counts; without, it only remembers what is registered. The services
    go on from the moment in the folder, if there is one; the second value takes the next ones, and `keeps` them coming.
    `processes` is how many each variant may have.

    Raises:
        LocalStackError: ministack is another version than the pinned one, or the moment cannot be brought back.

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
    checkpoints = _going_on(settings.state_dir, keeps=keeps)
    clock = SystemClock.of_stack(settings.state_dir / FILE)
    pace = clock.stack_time.pace
    ministack_adapter.keep_time(clock.now, pace=pace)
    cloudwatch = CloudWatch(region=settings.region, account=settings.account)
    scaling = AutoScalingApp(settings, clock=clock, book=cloudwatch)
    options = replace(Options().at_pace(pace), processes=processes)
    sagemaker = create_sagemaker(settings, options=options, scaled=scaling.holds, clock=clock)
    roles, faults = FunctionRoles(), Faults(settings.state_dir)
    services: dict[Service, Asgi] = {
        "other": Gate(FaultGate(other, faults), roles),
        "sagemaker": Gate(sagemaker, roles),
        "application-autoscaling": Gate(scaling, roles),
        "page": create_page(settings, stage=stage, root=Path(), clock=clock, pace=pace),
    }
    watch = AlarmWatch(cloudwatch, clock=clock, interval_s=look_s(ALARM_LOOK_S, pace=pace))
    scaler = ScalingWatch(
        scaling,
        sagemaker=client("sagemaker", target),
        cloudwatch=client("cloudwatch", target),
        clock=clock,
        interval_s=look_s(SCALING_LOOK_S, pace=pace),
    )
    keep_time = partial(clock.keep, settings.state_dir / FILE, offset_s=faults.clock_offset_s)
    tasks = [keep_time, watch.run, checkpoints.run, *((scaler.run,) if scales else ())]
    if valkey_pid is not None:
        tasks.append(CacheFault(faults, valkey_pid).run)
    return Gateway(services, tasks=tasks), checkpoints


def _going_on(folder: Path, *, keeps: bool) -> Checkpoints:
    memory, snapshot = Memory(), snapshot_of(folder.parent)
    if snapshot.moment() is not None:
        bring_back(memory, folder=folder, snapshot=snapshot)
    return Checkpoints(memory, folder=folder, snapshot=snapshot, keeps=keeps)


class _Server(AnnouncingServer):
    """Opens the gateway before the first request and closes it while it still answers."""

    def __init__(self, config: uvicorn.Config, *, gateway: Gateway, port: int, checkpoints: Checkpoints) -> None:
        super().__init__(config, port=port)
        self._gateway = gateway
        self._checkpoints = checkpoints

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._gateway.open()
        asyncio.get_running_loop().add_signal_handler(TAKE_MOMENT, self._checkpoints.ask)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._gateway.close()
        await self._checkpoints.end()
        await super().shutdown(sockets)
        await asyncio.to_thread(end_functions)


def serve(
    listener: socket.socket,
    settings: LocalSettings,
    *,
    valkey_port: int,
    stage: str,
    valkey_pid: int | None,
    scales: bool,
    keeps: bool,
    processes: int,
) -> None:
    """Answer until SIGTERM."""
    port = int(listener.getsockname()[1])
    gateway, checkpoints = create_gateway(
        settings,
        port=port,
        valkey_port=valkey_port,
        stage=stage,
        valkey_pid=valkey_pid,
        scales=scales,
        keeps=keeps,
        processes=processes,
    )
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
    _Server(config, gateway=gateway, port=port, checkpoints=checkpoints).run(sockets=[listener])


def main(argv: list[str] | None = None) -> int:
    """Run the gateway; 1 when it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m local.gateway", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder for what the services keep")
    parser.add_argument("--port", type=int, default=0, help="loopback port, 0 for a free one")
    parser.add_argument("--valkey-port", type=int, required=True, help="where the feature cache answers")
    parser.add_argument("--valkey-pid", type=int, help="its process, which the fault `cache` stops")
    parser.add_argument("--stage", default="dev", help="the stage that the page shows")
    parser.add_argument("--region", default=DEFAULT_REGION, help="the region of everything")
    parser.add_argument("--scale", action="store_true", help="let Application Auto Scaling change counts")
    parser.add_argument("--keep", action="store_true", help="keep what the services hold beside the folder")
    parser.add_argument("--processes", type=int, default=1, help="processes that each variant may have")
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
                valkey_pid=arguments.valkey_pid,
                scales=arguments.scale,
                keeps=arguments.keep,
                processes=arguments.processes,
            )
    except LocalStackError as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
