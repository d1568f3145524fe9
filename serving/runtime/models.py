"""What a server starts with: one model of an archive, those of a repository, or none until SageMaker says so."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from dataclasses import replace
from functools import partial
from pathlib import Path

from serving.protocol.archive import ModelFolder
from serving.runtime.admin import Admin
from serving.runtime.cgroup import memory_limit_bytes, usable_cores
from serving.runtime.inference import finish
from serving.runtime.journal import Journal
from serving.runtime.loading import caps_of, load
from serving.runtime.repository import Hosted, Repository
from serving.runtime.residency import Residency
from serving.runtime.routes import ModelApp
from serving.runtime.settings import ServerSettings
from serving.runtime.shelf import Shelf
from serving.runtime.threads import AskedThreads
from serving.runtime.turn import Turn

_OWN_BYTES = 128 << 20
"""Of the process without models, and of requests on their way."""

_SHARE = 0.8
_ALL = "*"


class Models:
    """The repository of a server and its routes; `load` fills it, archives are unpacked below `scratch`.

    Raises:
        ArchiveError: this server does not run the model of `folder`.
        ServerError: the folder of the repository is not there.

    """

    def __init__(
        self,
        settings: ServerSettings,
        folder: ModelFolder | None,
        scratch: Path,
        loop: AbstractEventLoop,
        turn: Turn,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._serve = partial(Hosted.serve, loop=loop, call_soon=turn.call_soon, finish=finish)
        repository = Repository()
        self.app = app = ModelApp(repository, limits=settings.limits, journal=Journal(slow_ms=settings.slow_ms))
        if folder is not None:
            self._caps = replace(caps_of(folder.served), divides=not settings.refuse_large)
            repository.default = Hosted(folder.served.name, folder.served, max_rows=self._caps.most_rows)
            repository.add(repository.default)
        self._shelf = Shelf(settings.model_repository) if settings.model_repository is not None else None
        limit_bytes = settings.model_memory_bytes or int(_SHARE * memory_limit_bytes()) - _OWN_BYTES
        self._threads = _threads(settings)
        self._residency = Residency(
            repository,
            loop=loop,
            serve=self._serve,
            scratch=scratch,
            limit_bytes=limit_bytes,
            threads=self._threads,
            deadline_ms=settings.deadline_ms,
        )
        infer = partial(app.inference, sagemaker=True)
        admin = Admin(self._residency, infer=infer, models_root=settings.models_root, shelf=self._shelf)
        app.more_routes, app.inferences.wake = admin.route, self._residency.wake

    async def close(self) -> None:
        """Free all models."""
        self.app.repository.close()

    async def load(self) -> dict[str, object]:
        """Load what the server starts with; gives the name and version of its model, or of each of several.

        Raises:
            ArchiveError: a model cannot be loaded.
            HostingError: a model is not there, or all together are too large.

        """
        hosted = self.app.repository.default
        if hosted is not None and self._folder is not None:
            loaded = await asyncio.to_thread(load, self._folder, self._caps, threads=self._threads)
            self._serve(hosted, loaded, caps=self._caps)
            return {"name": hosted.name, "version": hosted.served.version}
        if self._shelf is not None:
            asked = self._settings.load_models
            for name in sorted(self._shelf.sources()) if asked == (_ALL,) else asked:
                await self._residency.load(name, self._shelf.source(name))
        return {"models": {hosted.name: hosted.served.version for hosted in self.app.repository}}


def _threads(settings: ServerSettings) -> AskedThreads:
    cores = settings.cores if settings.cores is not None else usable_cores()
    return AskedThreads(cores=cores, intra_op=settings.threads, workers=settings.workers)
