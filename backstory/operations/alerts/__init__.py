"""Alert a command or a webhook when the set of a workspace's problems changes.

A caller describes the end of a run as a :class:`RunEnd` and calls :func:`send_alerts_of_run`.
"""
