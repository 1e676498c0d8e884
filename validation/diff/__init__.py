"""Two reports against each other: can they be compared, and what became better or worse."""
