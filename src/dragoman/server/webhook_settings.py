"""The settings of webhooks: which service has one, and which hosts they may reach."""

from pathlib import Path

from pydantic import Field, field_validator

from dragoman.model.webhook import split_hook_url
from dragoman.server.settings_section import SettingsSection
from dragoman.server.webhook_post import HookPolicy


class WebhookSection(SettingsSection):
    """The ends of jobs, posted to URLs; see `docs/queue.md`."""

    services: dict[str, str] = Field(
        default_factory=dict, description="URLs that get the ends of jobs, by service name."
    )
    hosts: tuple[str, ...] | None = Field(
        default=None,
        description="Globs of host names that webhooks may reach. Not set: every host, or none if "
        "security is on. A job may have a webhook of its own only to a host of this list.",
    )
    private: bool | None = Field(
        default=None,
        description="Whether loopback and private addresses may be reached. Not set: only if "
        "security is off.",
    )
    attempts: int = Field(default=12, ge=1, le=100, description="Attempts before one is given up.")
    secret: Path | None = Field(
        default=None,
        description="The file of the secret that signs; by default `webhook.key` in `data`.",
    )

    def policy(self, is_secured: bool) -> HookPolicy:
        """Return which hosts may be reached."""
        hosts = () if self.hosts is None and is_secured else self.hosts
        return HookPolicy(hosts, not is_secured if self.private is None else self.private)

    def job_policy(self, is_secured: bool) -> HookPolicy:
        """Return which hosts a job's own webhook may reach: listed ones only."""
        return HookPolicy(self.hosts or (), self.policy(is_secured).is_private_allowed)

    @property
    def is_used(self) -> bool:
        """Whether there may be anything to deliver."""
        return bool(self.services or self.hosts)

    @field_validator("services")
    @classmethod
    def _are_urls(cls, services: dict[str, str]) -> dict[str, str]:
        for url in services.values():
            split_hook_url(url)
        return services
