"""Code that uses private names of Dagster; the README of this folder gives the reasons and the tests."""
