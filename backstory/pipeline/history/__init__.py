"""The history of runs: status, end and cost of each, and the budgets that stop it."""
