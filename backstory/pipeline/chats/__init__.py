"""Inputs, archive and reports of the stage ``messages``."""
