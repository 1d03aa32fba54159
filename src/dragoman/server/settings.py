"""The broker's settings: one typed tree with defaults. Nothing else reads the environment.

Sources, later ones win: defaults, the TOML file, environment variables (`DRAGOMAN_DATA`,
`DRAGOMAN_LISTEN__NFP`, ...), flags of the command line.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from dragoman.core.limits import Limits
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.terms import Terms


class SettingsSection(BaseModel):
    """A part of the settings; a misspelt name is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(SettingsSection):
    """Where each link listens: an endpoint, or `off`. Port 0 picks a free one."""

    nfp: str = "tcp://127.0.0.1:5555"
    dcp: str = "tcp://127.0.0.1:5566"
    zss: str = "tcp://127.0.0.1:7777"
    zss_backend: str = "tcp://127.0.0.1:7776"
    memo: str = "tcp://127.0.0.1:12703"
    #: Empty or `tcp://`: a nats-server of the broker's own listens there (empty: on the loopback,
    #: port 4222 if free). `nats://` or `tls://`: that server is used.
    nats: str = ""
    http: str = "http://127.0.0.1:8420"


class CredentialsSection(SettingsSection):
    """What listeners prove themselves with; see `server.credentials`."""

    #: Files with secret CURVE keys, for nfp, dcp and zss. During a rotation there are two, the one
    #: to stay first: peers may know either.
    curve: tuple[Path, ...] = ()
    #: PEM files for memo, http and nats: the broker's certificate, the key for it, and the
    #: authority that vouches for the certificates of peers.
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    #: What the broker proves to a NATS server that is not its own: a seed, or a `.creds` file.
    nats: Path | None = None
    #: Listeners that stay plain all the same.
    plain: tuple[Literal["nfp", "dcp", "zss", "zss_backend", "memo", "http", "nats"], ...] = ()
    #: Let plain listeners be reached by others than this machine.
    insecure: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> "CredentialsSection":
        pem = (self.certificate, self.key, self.authority)
        if any(pem) and not all(pem):
            raise ValueError("certificate, key and authority belong together")
        return self


class SecuritySection(SettingsSection):
    """Who may speak and who may do what; see `server.guard`."""

    #: On: nobody may do anything that the policy does not allow. Off: everybody may do everything.
    enabled: bool = False
    #: The policy, in TOML; without one it is `policy.toml` in the data folder, if that exists.
    policy: Path | None = None
    #: The keys; without one it is `registry.json` in the data folder.
    registry: Path | None = None
    #: A file whose bytes key the hash chain of the ledger; best kept on another disk than the data.
    audit_key: Path | None = None


class LedgerSection(SettingsSection):
    """How the ledger is kept."""

    #: Export sealed ranges as Parquet segments for the pipeline.
    seal: bool = True
    #: A segment is sealed when so many records are waiting, ...
    seal_records: int = Field(default=100_000, ge=1)
    #: ... or the oldest of them is so many seconds old.
    seal_age: float = Field(default=60.0, gt=0)
    #: Records older than this many days are removed once exported; 0 keeps everything.
    keep_days: float = Field(default=0.0, ge=0)


class CoreLimitsSection(SettingsSection):
    """Bounds of the core; see `core.limits`."""

    queued_jobs: int = Field(default=Limits().queued_jobs, ge=1)
    queued_bytes: int = Field(default=Limits().queued_bytes, ge=1)
    retention: float = Field(default=Limits().retention, ge=0)
    finished_jobs: int = Field(default=Limits().finished_jobs, ge=0)
    result_bytes: int = Field(default=Limits().result_bytes, ge=0)
    hops: int = Field(default=Limits().hops, ge=0)
    recovery_grace: float = Field(default=Limits().recovery_grace, ge=0)

    def as_limits(self) -> Limits:
        """Return the core's own form."""
        return Limits(**self.model_dump())


class ServiceSection(SettingsSection):
    """Terms for the jobs of one service; what is not said stays as the dialect has it."""

    durability: Literal["strict", "relaxed"] | None = None
    patience: float | None = Field(default=None, ge=0)
    queue_timeout: float | None = Field(default=None, gt=0)
    run_timeout: float | None = Field(default=None, gt=0)
    timeout: float | None = Field(default=None, gt=0)
    max_attempts: int | None = Field(default=None, ge=1)
    backoff: float | None = Field(default=None, ge=0)
    balance: Literal["least_loaded", "least_recently_used", "round_robin"] | None = None
    memoize: bool | None = None
    #: What a job takes of a worker that tells its capacity: cores, bytes, bytes, cards.
    cpu: float = Field(default=0.0, ge=0)
    memory: int = Field(default=0, ge=0)
    disk: int = Field(default=0, ge=0)
    gpu: int = Field(default=0, ge=0)

    def apply(self, terms: Terms) -> Terms:
        """Return a dialect's terms with what is said here in their place."""
        apart = {"durability", "cpu", "memory", "disk", "gpu"}
        said = {k: v for k, v in self.model_dump(exclude=apart).items() if v is not None}
        needs = Capacity(self.cpu, self.memory, self.disk, self.gpu)
        if needs != NOTHING:
            said["needs"] = needs
        if self.durability is not None:
            said["strict"] = self.durability == "strict"
        kept = {name: getattr(terms, name) for name in terms.__slots__}
        return Terms(**{**kept, **said})


class NfpSection(SettingsSection):
    """The NFP link; see `dialects.nfp.settings`."""

    worker_credit: int = Field(default=100, ge=1)
    beat_every: float = Field(default=2.5, gt=0)
    missed_allowed: int = Field(default=6, ge=1)
    timeout: float = Field(default=600.0, gt=0)
    patience: float = Field(default=60.0, ge=0)
    poll_every: float = Field(default=10.0, gt=0)
    max_body: int = Field(default=64 * 1024 * 1024, ge=1)


class DcpSection(SettingsSection):
    """The DCP link; see `dialects.dcp.settings`."""

    beat_every: float = Field(default=1.0, gt=0)
    missed_allowed: int = Field(default=10, ge=1)
    missed_allowed_busy: int = Field(default=600, ge=1)
    poll_every: float = Field(default=10.0, gt=0)
    ping_asks_for_work: bool = True
    takes_named_clients: bool = False
    faults: Literal["empty", "silent"] = "empty"


class ZssSection(SettingsSection):
    """The ZSS links; see `dialects.zss.settings`."""

    beat_every: float = Field(default=1.0, gt=0)
    missed_allowed: int = Field(default=3, ge=1)
    credit: int | None = Field(default=None, ge=1)
    grace: float = Field(default=1.0, ge=0)
    poll_every: float = Field(default=10.0, gt=0)
    traces: bool = True
    #: sid -> the service's name in the house, where that has capitals.
    names: dict[str, str] = Field(default_factory=dict)


class MemoSection(SettingsSection):
    """The memo01 link; see `dialects.memo01.settings`."""

    beat_every: float = Field(default=10.0, gt=0)
    beat_answer: float = Field(default=10.0, gt=0)
    queue_timeout: float = Field(default=10.0, gt=0)
    max_attempts: int = Field(default=3, ge=1)
    payload_limit: int = Field(default=16 * 1024 * 1024, ge=1)


class NclSection(SettingsSection):
    """The NCL link; see `dialects.ncl.settings`."""

    orchestrator: str = Field(default="dragoman", min_length=1)
    namespace: str = Field(default="default", min_length=1)
    heartbeat_interval: float = Field(default=15.0, gt=0)
    disconnect_timeout: float = Field(default=60.0, gt=0)
    grace: float = Field(default=180.0, ge=0)
    bids: bool = True
    manual_approval: bool = False
    slots_per_core: float = Field(default=1.0, gt=0)
    follow_logs: bool = True
    ack_wait: float = Field(default=30.0, gt=0)
    max_pending: int = Field(default=1000, ge=1)
    cumulative_acks: bool = False
    retry_base: float = Field(default=5.0, gt=0)
    retry_max: float = Field(default=300.0, gt=0)
    checkpoint_interval: float = Field(default=30.0, gt=0)
    reconcile_after: float = Field(default=5.0, gt=0)
    remember: int = Field(default=100_000, ge=0)
    forget_after: float = Field(default=7 * 86_400.0, gt=0)
    max_nodes: int = Field(default=10_000, ge=1)
    max_payload: int = Field(default=1024 * 1024, ge=1024)


class HttpSection(SettingsSection):
    """The HTTP door; see `dialects.http.settings` and `web.settings`."""

    beat_every: float = Field(default=5.0, gt=0)
    missed_allowed: int = Field(default=6, ge=1)
    longest_lease: float = Field(default=3600.0, gt=0)
    timeout: float = Field(default=600.0, gt=0)
    patience: float = Field(default=60.0, ge=0)
    max_body: int = Field(default=64 * 1024 * 1024, ge=1)
    long_poll: float = Field(default=60.0, gt=0)
    heartbeat: float = Field(default=15.0, gt=0)
    header_timeout: float = Field(default=10.0, gt=0)
    body_timeout: float = Field(default=60.0, gt=0)
    keep_alive: float = Field(default=75.0, gt=0)
    stalled: float = Field(default=30.0, gt=0)
    connections: int = Field(default=1000, ge=1)
    stream_window: int = Field(default=1000, ge=1)
    #: Names of this host that requests may use, beside its addresses on the loopback.
    hosts: tuple[str, ...] = ()


class FilesSection(SettingsSection):
    """The file service. Without roots it shares nothing."""

    #: Folders by the name that begins their URLs; the one named "" has all other URLs.
    roots: dict[str, Path] = Field(default_factory=dict)
    #: Roots into which clients may put files.
    writable: list[str] = Field(default_factory=list)
    #: Bytes of the largest file that may be put; it passes through the ledger.
    largest_put: int = Field(default=64 * 1024 * 1024, ge=0)


class SecretsSection(SettingsSection):
    """Secrets of the inventory: where references may point to, and which paths are secret."""

    #: Folders whose files `secret:file:PATH` may name; by default none.
    folders: tuple[Path, ...] = ()
    #: The prefix of the variables that `secret:env:NAME` may name; by default none.
    environment: str = ""
    #: Paths of a worker's inventory that are secrets; `!PATH` is none. The files may declare more.
    paths: tuple[str, ...] = ()


class BrokerSettings(BaseSettings):
    """Everything that can be set about a broker."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGOMAN_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    #: Where the ledger lives.
    data: Path = Path("dragoman-data")
    listen: Listen = Listen()
    credentials: CredentialsSection = CredentialsSection()
    security: SecuritySection = SecuritySection()
    ledger: LedgerSection = LedgerSection()
    limits: CoreLimitsSection = CoreLimitsSection()
    nfp: NfpSection = NfpSection()
    dcp: DcpSection = DcpSection()
    zss: ZssSection = ZssSection()
    memo: MemoSection = MemoSection()
    ncl: NclSection = NclSection()
    http: HttpSection = HttpSection()
    services: dict[str, ServiceSection] = Field(default_factory=dict)
    #: Objects for workers, by name pattern; files say more.
    inventory: dict[str, dict[str, Any]] = Field(default_factory=dict)
    #: A folder of YAML or TOML files, or the index file in it.
    inventory_path: Path | None = None
    secrets: SecretsSection = SecretsSection()
    files: FilesSection = FilesSection()
    #: Seconds a shutdown waits for running jobs.
    drain: float = Field(default=10.0, ge=0)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read flags, then the environment, then the file."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load(config: Path | None = None, **flags: Any) -> BrokerSettings:
    """Read the settings. Raises ValueError (pydantic's, with the name of what is wrong)."""
    if config is None:
        return BrokerSettings(**flags)
    if not config.is_file():
        raise ValueError(f"the settings file {config} does not exist")

    class FromFile(BrokerSettings):
        model_config = SettingsConfigDict(toml_file=config)

    return FromFile(**flags)
