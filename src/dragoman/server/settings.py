"""The broker's settings: one typed tree with defaults.

A dialect declares its own settings in its folder (`model.setting`), and so do the core and the web
application; here are the broker's own. Those of services and schedules are in `service_settings`;
the cluster, token issuers and webhooks have modules like it. `settings_sources` reads all from
the file, the environment and the flags; `settings_reference` documents them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
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
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.endpoints import check_endpoint
from dragoman.server.issuer_settings import IssuerSection, check_issuer_names
from dragoman.server.service_settings import ScheduleSection, ServiceSection
from dragoman.server.settings_section import SettingsSection
from dragoman.server.webhook_settings import WebhookSection


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
