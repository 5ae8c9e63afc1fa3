"""What a run says about itself while it works: log records with fields, and OpenTelemetry spans.

:func:`observe` marks a piece of work, such as a stage. Every log record written inside carries the fields of the
work, and if traces are exported, the work is a span.
"""

from backstory.telemetry.scope import Value, Work, bind, current_run, describe_range, observe, observe_run

__all__ = ["Value", "Work", "bind", "current_run", "describe_range", "observe", "observe_run"]
