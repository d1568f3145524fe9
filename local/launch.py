"""How the supervisor of a stack is started: in a session of its own, tied to who starts it by its standard input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from local.deploy import BYTECODE
from local.documents import STAGE
from local.environment import bytecode_environment, clean_environment


def launch(arguments: Sequence[str], *, state_dir: Path, root: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start it; it gets its own copy of the descriptor `lock`, which holds the folder."""
    own = ["--state", str(state_dir), "--root", str(root), "--stage", STAGE, "--lock", str(lock)]
    with (state_dir / "logs" / "supervisor.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - a module of this package
            [sys.executable, "-m", "local.supervisor", *own, *arguments],
            cwd=root,
            env=clean_environment(
                # a killed process cannot tidy up: what it unpacked goes with the next start
                {**bytecode_environment(root / BYTECODE), "TMPDIR": str(state_dir / "tmp")}
            ),
            stdin=subprocess.PIPE,  # closes when this process is gone
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
        )
