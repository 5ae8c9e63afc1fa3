"""Alert a command or a webhook when the set of a workspace's problems changes.

A caller describes a run as an ``EndedRun`` and calls ``send_alerts_of_run``.
"""
