"""The broker's settings: one typed tree with defaults.

A dialect declares its own settings in its folder (`model.setting`), and so do the core and the web
application; here are the broker's own. `settings_sources` reads them from the file, the environment
and the flags; `settings_reference` documents them.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from dragoman.core.limits import Limits
from dragoman.dialects.listeners import ALL_LISTENERS, listener
from dragoman.dialects.mesh.settings import NeighbourTerms
from dragoman.dialects.registry import DIALECTS
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.limit import Limit
from dragoman.model.retry import MOST_RETRIES, Retry
from dragoman.model.schedule import Schedule, check_schedule
from dragoman.model.terms import Terms
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.endpoints import check_endpoint
from dragoman.server.issuer_settings import IssuerSection, check_issuer_names
from dragoman.server.webhook_settings import WebhookSection


class SettingsSection(BaseModel):
    """A section of the settings; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Endpoints(SettingsSection):
    """The endpoint of each listener, or `off`. Port 0 picks a free port."""

    @field_validator("*", mode="before")
    @classmethod
    def _complete(cls, given: object, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        return check_endpoint(listener(name), given) if isinstance(given, str) else given


if TYPE_CHECKING:

    class Listen(_Endpoints):
        """One field for each listener of the table."""

        def __getattr__(self, name: str) -> str: ...

else:
    Listen = create_model(
        "Listen",
        __base__=_Endpoints,
        __doc__=_Endpoints.__doc__,
        **{
            each.name: (str, Field(default=each.default, description=f"{each.peers}.{each.note}"))
            for each in ALL_LISTENERS
        },
    )


class CredentialsSection(SettingsSection):
    """The broker's own keys and certificates; see `docs/security-transports.md`."""

    curve: tuple[Path, ...] = Field(
        default=(),
        description="Files with secret CURVE keys, for nfp, dcp and zss. During a rotation there "
        "are two, the new one first: peers may use either.",
    )
    certificate: Path | None = Field(
        default=None, description="The broker's certificate (PEM), for memo, http and nats."
    )
    key: Path | None = Field(default=None, description="The key of the certificate (PEM).")
    authority: Path | None = Field(
        default=None, description="The authority that signs the certificates of peers (PEM)."
    )
    nats: Path | None = Field(
        default=None,
        description="The broker's seed or `.creds` file for a NATS server that is not its own.",
    )
    plain: tuple[str, ...] = Field(
        default=(), description="Listeners that stay without security, by name."
    )
    insecure: bool = Field(
        default=False, description="Whether listeners without security accept other machines."
    )

    @field_validator("plain")
    @classmethod
    def _are_listeners(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = [each.name for each in ALL_LISTENERS]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"unknown listener {unknown[0]!r}; use {', '.join(known)}")
        return names

    @model_validator(mode="after")
    def _is_whole(self) -> "CredentialsSection":
        pem = (self.certificate, self.key, self.authority)
        if any(pem) and not all(pem):
            raise ValueError("certificate, key and authority must be set together")
        return self


class SecuritySection(SettingsSection):
    """Authentication and policy; see `docs/security.md`."""

    enabled: bool = Field(
        default=False,
        description="Whether the policy applies. If not, every peer may do everything.",
    )
    policy: Path | None = Field(
        default=None, description="The policy, in TOML; by default `policy.toml` in `data`."
    )
    registry: Path | None = Field(
        default=None, description="The key registry; by default `registry.json` in `data`."
    )
    audit_key: Path | None = Field(
        default=None,
        description="A file that keys the ledger's hash chain; best on another disk than `data`.",
    )
    sink: str = Field(
        default="",
        description="Where records of security interest go, as JSON lines: `file:///PATH`,"
        " `syslog+tcp://HOST:PORT`, `syslog+udp://HOST:PORT` or `https://HOST/PATH`.",
    )
    anchor: str = Field(
        default="", description="Where signed heads of the ledger go; the same forms as `sink`."
    )
    anchor_every: float = Field(default=300.0, gt=0, description="Seconds between two anchors.")
    anchor_key: Path | None = Field(
        default=None, description="The key that signs anchors; by default `anchor.key` in `data`."
    )
    issuers: dict[str, IssuerSection] = Field(
        default_factory=dict, description="Issuers of tokens, by a name for each."
    )

    @field_validator("issuers")
    @classmethod
    def _are_named(cls, issuers: dict[str, IssuerSection]) -> dict[str, IssuerSection]:
        return check_issuer_names(issuers)


class LedgerSection(SettingsSection):
    """The ledger; see `docs/ledger.md`."""

    seal: bool = Field(
        default=True, description="Whether to export sealed ranges as Parquet segments."
    )
    seal_records: int = Field(default=100_000, ge=1, description="Records that fill a segment, ...")
    seal_age: float = Field(
        default=60.0, gt=0, description="... or the age of its oldest record in seconds."
    )
    keep_days: float = Field(
        default=30.0,
        ge=0,
        description="Days after which exported records are removed; 0 keeps everything for ever."
        " Records of unfinished jobs always stay.",
    )
    sealed_days: float = Field(
        default=365.0,
        ge=0,
        description="Days after which segments are removed that every pipeline has read; 0 keeps"
        " them for ever. Without a pipeline all stay.",
    )
    tables: str = Field(
        default="", description="Folder or URL of the tables for charts; empty: `tables` in `data`."
    )


class TaskSection(SettingsSection):
    """Terms for the jobs of one task; what is not set stays as the service has it."""

    run_timeout: float | None = Field(
        default=None, gt=0, description="Seconds that one attempt may run."
    )
    timeout: float | None = Field(
        default=None, gt=0, description="Seconds that a job may take in all."
    )
    max_attempts: int | None = Field(
        default=None, ge=1, description="How often its worker may be lost before a job is dead."
    )
    backoff: float | None = Field(
        default=None,
        ge=0,
        description="First wait after a lost worker, in seconds; doubles.",
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=MOST_RETRIES,
        description="How often a task that failed runs again, unless the call says so.",
    )
    retry_backoff: float = Field(
        default=1.0, ge=0, description="Wait before the first retry, in seconds."
    )
    retry_factor: float = Field(
        default=2.0, ge=1, description="Each wait is so much longer than the last; 1: all the same."
    )
    retry_longest: float = Field(
        default=600.0, ge=0, description="The longest wait between two attempts, in seconds."
    )
    retry_jitter: float = Field(
        default=0.0, ge=0, le=1, description="The share of each wait that is left to chance."
    )
    retry_on: tuple[str, ...] = Field(
        default=("task_failed",),
        description="Faults and names of exceptions after which a task runs again.",
    )

    concurrency: int = Field(
        default=0, ge=0, description="How many jobs may run at a time; 0: no limit."
    )
    rate: float = Field(
        default=0.0, ge=0, description="How many jobs may start in `rate_per` seconds; 0: no limit."
    )
    rate_per: float = Field(
        default=1.0, gt=0, le=86_400, description="The seconds in which `rate` jobs may start."
    )
    burst: int = Field(
        default=0,
        ge=0,
        description="How many jobs may start at once after a quiet time; 0: as many as `rate`.",
    )

    @property
    def limit(self) -> Limit:
        """The limit of the service or task."""
        return Limit("", self.concurrency, self.rate, self.rate_per, self.burst)

    def apply(self, terms: Terms) -> Terms:
        """Return terms, changed by what is set here. The retries of a call come first."""
        changes = {name: getattr(self, name) for name in self.changing}
        changes = {name: given for name, given in changes.items() if given is not None}
        if self.retries is not None and terms.retry is None:
            changes["retry"] = Retry(
                self.retries,
                self.retry_backoff,
                self.retry_factor,
                self.retry_longest,
                self.retry_jitter,
                self.retry_on,
            )
        return replace(terms, **changes)

    @property
    def changing(self) -> tuple[str, ...]:
        """The members that have the name of a term."""
        return ("run_timeout", "timeout", "max_attempts", "backoff")


class ServiceSection(TaskSection):
    """Terms for the jobs of one service; what is not set stays as the dialect has it."""

    durability: Literal["strict", "relaxed"] | None = Field(
        default=None,
        description="`strict`: a job is on disk before it is acknowledged. `relaxed`: sends do "
        "not wait for the disk.",
    )
    patience: float | None = Field(
        default=None, ge=0, description="Seconds that a job waits if no worker can take it."
    )
    queue_timeout: float | None = Field(
        default=None, gt=0, description="Seconds that a job may wait in the queue."
    )
    balance: Literal["least_loaded", "least_recently_used", "round_robin"] | None = Field(
        default=None, description="How the broker chooses among workers."
    )
    memoize: bool | None = Field(
        default=None, description="Whether the same request gets a remembered answer."
    )
    cpu: float = Field(default=0.0, ge=0, description="Cores that a job takes of its worker.")
    memory: int = Field(default=0, ge=0, description="Bytes of memory that a job takes.")
    disk: int = Field(default=0, ge=0, description="Bytes of disk that a job takes.")
    gpu: int = Field(default=0, ge=0, description="GPUs that a job takes.")

    tasks: dict[str, TaskSection] = Field(
        default_factory=dict, description="Terms for single tasks, by task name."
    )

    def apply(self, terms: Terms, task: str = "") -> Terms:
        """Return a dialect's terms, changed by what is set here and for the task."""
        own = self.tasks.get(task)
        terms = super().apply(own.apply(terms) if own is not None else terms)
        if own is not None:
            # What is set for the task comes before what is set for the service.
            terms = own.apply(terms)
        changes: dict[str, Any] = {}
        needs = Capacity(self.cpu, self.memory, self.disk, self.gpu)
        if needs != NOTHING:
            changes["needs"] = needs
        if self.durability is not None:
            changes["strict"] = self.durability == "strict"
        return replace(terms, **changes)

    @property
    def changing(self) -> tuple[str, ...]:
        """The members that have the name of a term."""
        return (*super().changing, "patience", "queue_timeout", "balance", "memoize")


class ScheduleSection(SettingsSection):
    """Jobs that the broker submits by itself; see `docs/queue.md`."""

    service: str = Field(default="", description="The service to call.")
    task: str = Field(default="", description="The task of that service.")
    args: list[Any] = Field(default_factory=list, description="Arguments by position.")
    kwargs: dict[str, Any] = Field(default_factory=dict, description="Arguments by name.")
    cron: str = Field(default="", description="When: a cron expression.")
    zone: str = Field(default="UTC", description="The time zone of the cron expression.")
    every: int = Field(default=0, ge=0, description="Or: every so many seconds.")
    target: str = Field(default="any", description="Which workers.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds that a job may take.")
    priority: int = Field(default=0, description="Orders the jobs of schedules; higher first.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further options of its jobs, such as `retries`."
    )
    catch_up: Literal["none", "last", "all"] = Field(
        default="last", description="For which ticks of an outage a job is submitted."
    )
    overlap: Literal["skip", "allow"] = Field(
        default="skip", description="Whether a tick is skipped while the last job has not ended."
    )
    jitter: float = Field(
        default=0.0, ge=0, description="Jobs start up to so many seconds after their tick."
    )

    def schedule(self, name: str) -> Schedule:
        """Return the schedule. Raises ValueError."""
        found = Schedule(name, **{**dict(self), "args": tuple(self.args)})
        check_schedule(found)
        return found


class FilesSection(SettingsSection):
    """The file service. Without roots it shares nothing."""

    roots: dict[str, Path] = Field(
        default_factory=dict,
        description='Folders by the first part of their URLs; the root "" has all other URLs.',
    )
    writable: list[str] = Field(
        default_factory=list, description="Roots into which clients may upload files."
    )
    largest_put: int = Field(
        default=64 * 1024 * 1024,
        ge=0,
        description="Largest uploaded file in bytes; it passes through the ledger.",
    )
    keep_days: dict[str, PositiveFloat] = Field(
        default_factory=dict,
        description="Writable roots whose files are removed so many days after their last upload.",
    )

    @model_validator(mode="after")
    def _only_writable(self) -> Self:
        if wrong := self.keep_days.keys() - set(self.writable):
            raise ValueError(f"keep_days: {', '.join(sorted(wrong))} is not in files.writable")
        return self


class SecretsSection(SettingsSection):
    """Secrets of the inventory: where references may point to, and which paths are secret."""

    folders: tuple[Path, ...] = Field(
        default=(), description="Folders whose files `secret:file:PATH` may name; default: none."
    )
    environment: str = Field(
        default="",
        description="Prefix of the variables that `secret:env:NAME` may name; default: none.",
    )
    paths: tuple[str, ...] = Field(
        default=(),
        description="Paths of a worker's inventory that are secrets; `!PATH` is none. The files "
        "may declare more.",
    )


class TracesSection(SettingsSection):
    """Traces of jobs; see `docs/traces.md`."""

    endpoint: str = Field(
        default="",
        description="Where spans are sent over OTLP, e.g. http://127.0.0.1:4318/v1/traces; empty: "
        "nowhere. Needs the extra `otel`.",
    )


class NamespaceSection(SettingsSection):
    """A namespace: a tenant that sees nothing of the others; see `docs/security-namespaces.md`."""

    config: Path | None = Field(
        default=None,
        description="Its own settings, in TOML: limits, services, schedules, security and others.",
    )
    listen: dict[str, str] = Field(
        default_factory=dict,
        description="Its own listeners: an endpoint by the listener's name. Who connects there is"
        " in this namespace.",
    )
    shared: bool = Field(
        default=True,
        description="Whether its keys may connect at the listeners of the default namespace, too,"
        " if security is on.",
    )

    @field_validator("listen")
    @classmethod
    def _are_endpoints(cls, listen: dict[str, str]) -> dict[str, str]:
        return Listen(**listen).model_dump(include=set(listen))


class _OwnSettings(SettingsSection):
    """All settings of a broker."""

    data: Path = Field(default=Path("dragoman-data"), description="The folder of the ledger.")
    name: str = Field(
        default="",
        description="The name of this broker among others; empty: one is made and kept in `data`.",
    )
    drain: float = Field(
        default=10.0, ge=0, description="Seconds that a shutdown waits for running jobs."
    )
    largest_clock_jump: float = Field(
        default=86_400.0,
        gt=0,
        description="Seconds that the wall clock may be ahead of the last record at the start. If "
        "it is further ahead and open jobs would expire, the broker does not start.",
    )
    accept_clock: bool = Field(
        default=False, description="Start however far the wall clock is ahead of the last record."
    )
    inventory_path: Path | None = Field(
        default=None,
        description="Inventory: a folder of YAML or TOML files, or the index file in it.",
    )
    inventory: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Inventory of workers by name pattern; files override it.",
    )
    weights: dict[str, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict,
        description="How many jobs a client gets in one turn (1 unless set), by principal or by"
        " the client's name.",
    )
    listen: Listen = Listen()
    credentials: CredentialsSection = CredentialsSection()
    security: SecuritySection = SecuritySection()
    ledger: LedgerSection = LedgerSection()
    cluster: ClusterSection = ClusterSection()
    traces: TracesSection = TracesSection()
    webhooks: WebhookSection = WebhookSection()
    limits: Limits = Limits()
    services: dict[str, ServiceSection] = Field(
        default_factory=dict, description="Terms for single services, by service name."
    )
    schedules: dict[str, ScheduleSection] = Field(
        default_factory=dict, description="Schedules, by name."
    )
    mesh: dict[str, NeighbourTerms] = Field(
        default_factory=dict, description="Other brokers, by a name for each."
    )
    secrets: SecretsSection = SecretsSection()
    files: FilesSection = FilesSection()
    namespaces: dict[str, NamespaceSection] = Field(
        default_factory=dict, description="Namespaces of tenants, by name."
    )


def _dialect_sections() -> dict[str, Any]:
    """Return one section for each dialect, from its own declaration."""
    kinds = {name: dialect.settings_type() for name, dialect in DIALECTS.items()}
    return {name: (kind, kind()) for name, kind in kinds.items() if kind is not None}


if TYPE_CHECKING:

    class BrokerSettings(_OwnSettings):
        """All settings of a broker, with one section for each dialect."""

        def __getattr__(self, name: str) -> Any: ...

else:
    BrokerSettings = create_model(
        "BrokerSettings",
        __base__=_OwnSettings,
        __doc__=_OwnSettings.__doc__,
        **_dialect_sections(),
    )
