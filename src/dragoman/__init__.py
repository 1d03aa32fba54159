"""Dragoman: one service broker that speaks five published protocols of the Majordomo family."""
