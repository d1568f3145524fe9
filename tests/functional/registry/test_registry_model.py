"""The adapter against a registry of three dictionaries: after any sequence of calls both say the same."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from moto import mock_aws

from serving.aws.registry import S3ModelRegistry
from serving.errors import ApprovalError, ModelNotFoundError, VersionConflictError
from tests.fakes.registry import packed_archive, read_manifest

BUCKET = "streamhub-dev-registry-123456789012"
VERSIONS = st.sampled_from(["1.0.0", "2.0.0", "10.0.0"])
BYTES = st.sampled_from([b"x", b"y"])
ALIASES = st.sampled_from(["production", "shadow"])


class Model:
    """What docs/registry.md says, without S3."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.moves: dict[str, list[str]] = {"production": [], "shadow": []}
        self.approved: dict[str, bool] = {}
        self.protected: set[str] = set()

    def push(self, version: str, digest: str) -> None:
        if self.versions.setdefault(version, digest) != digest:
            raise VersionConflictError(version)

    def move(self, alias: str, version: str) -> None:
        if version not in self.versions:
            raise ModelNotFoundError(version)
        if self.moves[alias][-1:] == [version]:
            return
        if alias in self.protected and not self.approved.get(self.versions[version], False):
            raise ApprovalError(version)
        self.moves[alias].append(version)

    def roll_back(self, alias: str) -> None:
        if len(self.moves[alias]) < 2:
            raise ModelNotFoundError(alias)
        self.move(alias, self.moves[alias][-2])

    def decide(self, version: str, *, approved: bool) -> None:
        if version not in self.versions:
            raise ModelNotFoundError(version)
        if not approved and self.versions[version] not in self.approved:
            raise ApprovalError(version)
        self.approved[self.versions[version]] = approved


def outcome(call: Callable[[], object]) -> type[Exception] | None:
    try:
        call()
    except (ModelNotFoundError, ApprovalError, VersionConflictError) as error:
        return type(error)
    return None


class BothRegistries(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.aws = mock_aws()
        self.aws.start()
        client: Any = boto3.client(
            "s3",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - moto checks none
        )
        client.create_bucket(Bucket=BUCKET)
        self.real = S3ModelRegistry(BUCKET, client, clock=self.tick)
        self.folder = tempfile.TemporaryDirectory()

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def teardown(self) -> None:
        self.aws.stop()
        self.folder.cleanup()

    @rule(version=VERSIONS, data=BYTES)
    def push(self, version: str, data: bytes) -> None:
        path, beside = packed_archive(Path(self.folder.name), "toy", version, data)
        mine = outcome(lambda: self.model.push(version, hashlib.sha256(data).hexdigest()))
        assert outcome(lambda: self.real.push(path, read_manifest(beside), actor="ann")) == mine

    @rule(alias=ALIASES, version=VERSIONS)
    def move(self, alias: str, version: str) -> None:
        mine = outcome(lambda: self.model.move(alias, version))
        assert outcome(lambda: self.real.move_alias("toy", alias, version, actor="ann", reason="r")) == mine

    @rule(alias=ALIASES)
    def roll_back(self, alias: str) -> None:
        mine = outcome(lambda: self.model.roll_back(alias))
        assert outcome(lambda: self.real.roll_back_alias("toy", alias, actor="ann", reason="r")) == mine

    @rule(version=VERSIONS, approved=st.booleans())
    def decide(self, version: str, approved: bool) -> None:  # noqa: FBT001 - hypothesis names it
        mine = outcome(lambda: self.model.decide(version, approved=approved))
        call = self.real.approvals.approve if approved else self.real.approvals.revoke
        assert outcome(lambda: call("toy", version, actor="ann", reason="r")) == mine

    @rule(alias=ALIASES, required=st.booleans())
    def protect(self, alias: str, required: bool) -> None:  # noqa: FBT001 - hypothesis names it
        (self.model.protected.add if required else self.model.protected.discard)(alias)
        self.real.approvals.protect("toy", alias, required=required, actor="ann", reason="r")

    @rule()
    def collect(self) -> None:
        assert self.real.collector.collect(grace=timedelta()).removed == ()

    @invariant()
    def they_say_the_same(self) -> None:
        assert {each.version: each.sha256 for each in self.real.versions("toy")} == self.model.versions
        moves: dict[str, list[str]] = {"production": [], "shadow": []}
        for move in self.real.history("toy"):
            moves[move.alias].append(move.version)
        assert moves == self.model.moves


TestBothRegistries = BothRegistries.TestCase
TestBothRegistries.settings = settings(
    max_examples=12, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
