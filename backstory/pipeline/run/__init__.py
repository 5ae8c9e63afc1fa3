"""Makes tables stage by stage: what is broken is left as it was and named, and the rest is made."""
