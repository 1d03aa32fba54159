"""What the extras of the package add, and the sentence for a package that is missing."""

from typing import Final

#: Modules by the smallest extra that installs them.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "cli": ("rich", "typer"),
    "keys": ("cryptography", "nacl"),
    "broker": (
        *("apsw", "cronsim", "jinja2", "joserfc", "nats_server", "prometheus_client", "pyarrow"),
        *("pydantic", "starlette", "uvicorn", "yaml"),
    ),
    "spark": ("deltalake", "duckdb", "pandas", "pyspark"),
    "connect": ("grpc",),
    "top": ("textual",),
    "otel": ("opentelemetry",),
}
_EXTRA_OF: Final = {module: extra for extra, modules in MODULES.items() for module in modules}


def find_extra(error: ModuleNotFoundError, wanted: str = "") -> str:
    """Return the extra that has the missing module; empty if it is none of ours.

    Several extras have pyarrow and Jinja. `wanted` is the one that the caller's feature is in.
    """
    extra = _EXTRA_OF.get((error.name or "").partition(".")[0], "")
    return wanted if extra and wanted else extra


def explain_missing(error: ModuleNotFoundError, feature: str, wanted: str = "") -> str:
    """Say what to install for a feature; the error's own text if no extra helps."""
    if extra := find_extra(error, wanted):
        return (
            f"{feature} needs the package {error.name!r}, which is not installed. "
            f"Run: pip install 'dragoman[{extra}]'"
        )
    return str(error)
