"""All that rests on private names of Dagster: the README of this folder says why, and what tests it."""
