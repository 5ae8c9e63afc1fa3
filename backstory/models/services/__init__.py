"""The client of the services of models: limits, budgets, failures."""
