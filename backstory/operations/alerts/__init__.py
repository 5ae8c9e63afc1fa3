"""Alerts: a command or a webhook is told when the set of problems of a workspace changes.

A caller describes a run as an ``EndedRun`` and calls ``send_alerts_of_run``.
"""
