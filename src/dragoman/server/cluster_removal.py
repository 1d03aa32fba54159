"""Takes a node that is gone for ever out of the cluster of NATS servers.

The servers count the majority among all members that they know, so a member that never comes back
costs safety. Its removal is a request of the system account, for which each server has a user.
"""

import json
from pathlib import Path
from typing import Final

from dragoman.server.cluster_member import CLUSTER_FOLDER
from dragoman.server.cluster_settings import ClusterSection
from dragoman.transports.jetstream_connection import JetStreamConnection, JetStreamRefusal
from dragoman.transports.nats_cluster import SYSTEM_USER, system_password

#: Seconds that the leader of the servers has to answer.
_PATIENCE: Final = 10.0


def remove_node(section: ClusterSection, data: Path, node: str) -> None:
    """Remove a node. Raises ValueError if the servers refuse, TimeoutError without a majority."""
    if section.nats:
        raise ValueError(
            "these NATS servers are not the broker's own: remove the server with "
            f"`nats server cluster peer-remove {node}`"
        )
    port = int((data / CLUSTER_FOLDER / "port").read_text())
    password = system_password(section.read_token(data))
    connection = JetStreamConnection(
        [f"nats://127.0.0.1:{port}"], user=SYSTEM_USER, password=password, name="dragoman remove"
    )
    try:
        connection.run(_remove(connection, node), _PATIENCE + 1)
    except JetStreamRefusal as error:
        raise ValueError(f"the servers do not remove {node}: {error}") from None
    finally:
        connection.close()


async def _remove(connection: JetStreamConnection, node: str) -> None:
    content = json.dumps({"peer": node}).encode()
    await connection.request("$JS.API.SERVER.REMOVE", content, at_most=_PATIENCE)
