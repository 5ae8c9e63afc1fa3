"""Calls of the Gemini API, whatever they ask for: connection, limits, and what failures mean."""
