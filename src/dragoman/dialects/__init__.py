"""The protocols, one folder each. Pure code: no sockets, clocks or disks."""
