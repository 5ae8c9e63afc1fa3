"""What exists: the Dagster assets, one per table. Each reads, calls one library function, returns with metadata."""

import warnings

from dagster import BetaWarning

# Backfill policies and partition mappings are marked as beta; the pinned release is the one they were tried on.
warnings.filterwarnings("ignore", category=BetaWarning)
