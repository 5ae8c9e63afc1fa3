"""Runs the assets: the Dagster definitions with job, schedule and sensor, and the command ``python -m pipelines``.

Nothing is imported here, so that ``python -m pipelines`` prints its first line before Dagster is loaded.
"""
