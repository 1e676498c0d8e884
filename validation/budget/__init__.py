"""Memory budgets: `tq plan`, measured costs, and published tables computed again."""
