"""The history of runs: where each stands, how it ended, what it cost, and the budgets that stop it."""
