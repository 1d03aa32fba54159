"""What all sections of the broker's settings have in common."""

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """A section of the settings; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
