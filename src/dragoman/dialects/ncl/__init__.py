"""NCL, the protocol between Bacalhau's orchestrator and its compute nodes, over NATS."""

from dragoman.dialects.ncl.broker_side import BrokerSide
from dragoman.dialects.ncl.client_side import ClientSide
from dragoman.dialects.ncl.dress import NAME, Dress
from dragoman.dialects.ncl.recovery import restore
from dragoman.dialects.ncl.settings import ComputeSettings, OrchestratorSettings
from dragoman.dialects.ncl.store import Store
from dragoman.dialects.ncl.worker_side import WorkerSide

__all__ = [
    "NAME",
    "BrokerSide",
    "ClientSide",
    "ComputeSettings",
    "Dress",
    "OrchestratorSettings",
    "Store",
    "WorkerSide",
    "restore",
]
