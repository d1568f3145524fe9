"""Every error of the project, as one tree.

StreamHubError
├── SpecError                  a spec or stage file breaks a rule; carries every problem found
├── PackagingError             an archive cannot be built
│   └── ArchiveError           an archive cannot be read, or is not what its container needs
├── RegistryError
│   ├── ModelNotFoundError     no such model, version or alias
│   ├── VersionConflictError   other bytes stand under that version already
│   ├── AliasConflictError     somebody else moved the alias first
│   ├── ApprovalError          the digest is not approved, or somebody else decided first
│   └── IntegrityError         stored bytes are not those that were pushed
├── InferenceError             one request failed; the server is well
│   ├── InvalidRequestError    the request itself is wrong
│   ├── OverloadedError        no capacity in time; carries when to come back
│   ├── DeadlineExceededError  too late to be worth computing
│   ├── ModelFailedError       the model raised, or answered nonsense
│   └── NotAvailableError      the route exists; what it needs is not deployed here
├── ServerError                the model server cannot start
├── HostingError               the server cannot load or unload a model; it serves on
│   ├── AlreadyLoadedError     the name is taken
│   ├── NotLoadedError         no model of that name
│   └── NoRoomError            the memory for models does not hold it
├── FeatureStoreError          the feature cache cannot be read or written
├── EndpointError              the SageMaker endpoint refuses or is unreachable
├── TelemetryError             a baseline, a capture file or stored evidence cannot be read or written
├── ReleaseError               a release cannot do what was asked
│   └── StaleWriteError        another writer changed the record first
├── PreflightError             what would be deployed, or what is live, cannot be read
└── LocalStackError            the local stack cannot start, stop or answer

HTTP status codes are mapped at the edge, in one table a shell.
"""

from __future__ import annotations

from dataclasses import dataclass


class StreamHubError(Exception):
    """Anything this project refuses to do; its text is one line a user can act on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule in a file: what, where, got, allowed, how to fix."""

    file: str
    key: str
    got: str
    allowed: str
    fix: str
    source: str = ""

    def __str__(self) -> str:
        """Give the problem in one line."""
        cited = f" ({self.source})" if self.source else ""
        return f"{self.file}: {self.key}: got {self.got}; allowed {self.allowed}; {self.fix}{cited}"


class SpecError(StreamHubError):
    """Specs break rules; `problems` holds all of them, of all files."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class PackagingError(StreamHubError):
    """An archive cannot be built from this spec and these files."""


class ArchiveError(PackagingError):
    """An archive is truncated, unsafe, or not what its container needs."""


class RegistryError(StreamHubError):
    """The registry cannot do what was asked."""


class ModelNotFoundError(RegistryError):
    """No model, version or alias of that name."""


class VersionConflictError(RegistryError):
    """The version exists with other bytes; versions never change."""


class AliasConflictError(RegistryError):
    """The alias was moved by somebody else between the read and the write."""


class ApprovalError(RegistryError):
    """The digest is not approved, or somebody else decided about it first."""


class IntegrityError(RegistryError):
    """What the bucket holds is not what was pushed: a file is missing, changed or one too many."""


class InferenceError(StreamHubError):
    """One request could not be answered; the server itself is well."""


class InvalidRequestError(InferenceError):
    """The request is wrong: its text says which field, what it got and what it may be; `problems` has every field."""

    def __init__(self, message: str, *, problems: tuple[Problem, ...] = ()) -> None:
        self.problems = problems
        super().__init__(message)


class OverloadedError(InferenceError):
    """The queue cannot answer in time; `retry_after_s` says when to come back."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class DeadlineExceededError(InferenceError):
    """The answer would have come after its deadline, so it was not computed."""


class ModelFailedError(InferenceError):
    """The model raised, or gave another number of rows than it was asked for."""


class ServerError(StreamHubError):
    """The model server cannot start: its port is taken, or its address is not of this machine."""


class HostingError(StreamHubError):
    """The server cannot load or unload a model; what it has it goes on serving."""


class AlreadyLoadedError(HostingError):
    """A model of that name is loaded, or on its way."""


class NotLoadedError(HostingError):
    """No model of that name is loaded."""


class NoRoomError(HostingError):
    """The memory for models does not hold another one of that size, even without those that nobody uses now."""


class NotAvailableError(InferenceError):
    """The route is known; the model or the part that it needs is not deployed here."""


class FeatureStoreError(StreamHubError):
    """The feature cache cannot be reached, or holds bytes that are no feature row."""


class EndpointError(StreamHubError):
    """The endpoint is unknown, busy, throttled or unreachable."""


class TelemetryError(StreamHubError):
    """A drift baseline, a capture file or stored evidence is unreadable, or not what it says it is."""


class ReleaseError(StreamHubError):
    """The release cannot do what was asked in the state it is in."""


class StaleWriteError(ReleaseError):
    """The record moved on since it was read; read again."""


class PreflightError(StreamHubError):
    """What would be deployed cannot be read, or AWS does not say who asks."""


class LocalStackError(StreamHubError):
    """The local stack cannot start, stop or answer."""


class BenchmarkError(StreamHubError):
    """A benchmark, or a server it compares, cannot run here."""
