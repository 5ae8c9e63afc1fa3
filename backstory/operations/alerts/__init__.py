"""Alerts: a command or a webhook is told when the set of problems of a workspace changes.

A caller describes the end of a run as a :class:`RunEnd` and calls :func:`send_alerts_of_run`.
"""
