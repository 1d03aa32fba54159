"""The protocols: a folder each. Pure: they know meaning and no sockets, clocks or disks."""
