"""The Dagster assets, one per table, with their checks and the metadata that the UI shows."""

import warnings

from dagster import BetaWarning

# Backfill policies and partition mappings are marked as beta; they were tested with the pinned release.
warnings.filterwarnings("ignore", category=BetaWarning)
