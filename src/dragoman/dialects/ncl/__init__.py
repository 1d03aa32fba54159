"""NCL, the protocol of Bacalhau's orchestrator and compute nodes, over NATS. See README.md."""
