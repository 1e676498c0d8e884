"""Models: reading GGUF files, the numpy runtime, tokens and text; a cache is a component it knows nothing about."""
