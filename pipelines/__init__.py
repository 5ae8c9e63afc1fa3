"""When, and with which values, the assets run: definitions, jobs, schedules, and the headless command.

Nothing is imported here: ``python -m pipelines`` says what it reads before Dagster is loaded.
"""
