"""Telemetry of a run: log records with fields, and OpenTelemetry spans.

:func:`observe` marks a piece of work, such as a stage. Every log record written inside carries the fields of the
work, and if traces are exported, the work is a span.
"""
