"""Builds tables stage by stage: broken partitions stay as they were and are reported, the rest is built."""
