"""When, and with which values, the assets run: definitions, jobs, schedules, and the headless command."""

import warnings

from dagster import BetaWarning

# Backfill policies and partition mappings are marked as beta; the pinned release is the one they were tried on.
warnings.filterwarnings("ignore", category=BetaWarning)
