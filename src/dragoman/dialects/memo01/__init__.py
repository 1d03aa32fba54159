"""The MemoDB protocol, version `memo01`: CBOR headers over NNG's request and reply."""
