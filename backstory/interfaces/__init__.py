"""The ways in: library, commands, MCP, agents, adapters, original names, pages, Dagster specs."""
