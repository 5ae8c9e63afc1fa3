"""Runs the assets: the Dagster definitions with job, schedule and sensor, and the command ``backstory dagster``.

This module imports nothing: a command prints its first line before it loads Dagster.
"""
