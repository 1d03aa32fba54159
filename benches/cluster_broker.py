"""One node of a cluster for `bench_cluster`: prints its endpoint each time it leads.

python -m benches.cluster_broker NODE FOLDER SERVERS
"""

import asyncio
import sys
from pathlib import Path

from dragoman.server.cluster_node import ClusterNode
from dragoman.server.server import Server
from dragoman.server.settings_sources import load
from dragoman.transports.jetstream import JetStream
from dragoman.transports.jetstream_bucket import JetStreamBucket
from dragoman.transports.jetstream_connection import JetStreamConnection


def main(node: str, folder: str, servers: str) -> None:
    """Serve until SIGTERM."""
    connection = JetStreamConnection(servers.split(","))
    cluster = ClusterNode(
        node,
        JetStream.open(connection, "BENCH", "bench.ledger", 3),
        JetStreamBucket.open(connection, "bench", 3, 2.0),
    )
    settings = load(Path(folder) / "dragoman.toml", data=Path(folder) / node)

    def on_ready(endpoints: dict[str, str]) -> None:
        print(endpoints["nfp"], flush=True)

    asyncio.run(Server(settings, cluster).run(on_ready))
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
