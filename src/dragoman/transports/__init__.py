"""Bytes and addresses. Transports move frames and know no meaning."""
