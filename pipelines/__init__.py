"""Runs the assets: the Dagster definitions with job, schedule and sensor, and the command ``python -m pipelines``.

This module imports nothing: ``python -m pipelines`` prints its first line before it loads Dagster.
"""
