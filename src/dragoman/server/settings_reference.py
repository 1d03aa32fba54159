"""All settings with their defaults and meanings, read from their declarations.

`settings_sources` checks names against this list; `dragoman settings` and `docs/settings.md` print
it. Nothing is declared here.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from dragoman.model.setting import declared_settings
from dragoman.model.value import value
from dragoman.server.settings import BrokerSettings

#: Stands for any name, in `services.*.patience`.
ANY_NAME: Final = "*"
VARIABLE_PREFIX: Final = "DRAGOMAN_"
_WORDS: Final = {float: "number", int: "integer", bool: "true or false", Path: "path", str: "text"}
_SIGNS: Final = {"gt": ">", "ge": ">=", "min_length": "length >="}


@value
class SettingInfo:
    """One setting."""

    path: tuple[str, ...]
    #: Its type in words, with its limits.
    kind: str
    default: object
    help: str
    #: Whether an environment variable gives it as plain text; if not, as JSON.
    is_scalar: bool

    @property
    def name(self) -> str:
        """Return the name with its sections, as in `nfp.patience`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Return the environment variable."""
        return VARIABLE_PREFIX + "__".join(self.path).upper()

    def fits(self, path: tuple[str, ...]) -> bool:
        """Tell whether a path means this setting; `*` fits any name."""
        return len(path) == len(self.path) and all(
            own in (ANY_NAME, given) for own, given in zip(self.path, path, strict=True)
        )


@cache
def all_settings() -> tuple[SettingInfo, ...]:
    """Return every setting, in the order of the sections."""
    return tuple(_of_model(BrokerSettings, ()))


@cache
def section_help() -> dict[str, str]:
    """Return what each section is about, by name; the first sentence of its class."""
    return {
        name: (found.__doc__ or "").partition("\n")[0]
        for name, field in BrokerSettings.model_fields.items()
        if (found := _section(field.annotation)) is not None
    }


def _of_model(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[SettingInfo]:
    for name, field in model.model_fields.items():
        path, kind = (*above, name), field.annotation
        section = _section(kind)
        if section is None:
            default = field.get_default(call_default_factory=True)
            limits = dict(pair for limit in field.metadata for pair in _limits(limit))
            yield _info(path, kind, default, field.description or "", limits)
            continue
        below = (*path, ANY_NAME) if get_origin(kind) is dict else path
        of = _of_model if issubclass(section, BaseModel) else _of_value
        yield from of(section, below)


def _of_value(kind: type, above: tuple[str, ...]) -> Iterator[SettingInfo]:
    hints, made = get_type_hints(kind), kind()
    for name, field in declared_settings(kind).items():
        limits = {_SIGNS[key]: at for key, at in field.metadata.items() if key in _SIGNS}
        text = field.metadata["description"]
        yield _info((*above, name), hints[name], getattr(made, name), text, limits)


def _info(
    path: tuple[str, ...], kind: object, default: object, text: str, limits: Mapping[str, object]
) -> SettingInfo:
    plain = _plain(kind)
    words = " ".join([_word(plain), *(f"{sign} {at:g}" for sign, at in limits.items())])
    return SettingInfo(path, words, default, text, _is_scalar(plain))


def _section(kind: Any) -> type | None:
    """Return the class of a section, also of those that have a name each; None for a setting."""
    if get_origin(kind) is dict:
        kind = get_args(kind)[1]
    is_section = isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))
    return kind if is_section else None


def _plain(kind: object) -> object:
    """Return a type without `None`."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    return kind


def _is_scalar(kind: object) -> bool:
    return kind in _WORDS or get_origin(kind) is Literal


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{each}`" for each in get_args(kind))
    if get_origin(kind) in (tuple, list):
        return f"list of {_WORDS.get(get_args(kind)[0], 'value')}s"
    return str(_WORDS.get(kind, "table"))


def _limits(limit: object) -> Iterator[tuple[str, object]]:
    """Yield sign and bound of a limit as pydantic keeps it."""
    return ((sign, getattr(limit, key)) for key, sign in _SIGNS.items() if hasattr(limit, key))
