"""What the arms are validated on: versioned, hashed prompts, each of them one unit of the statistics."""
