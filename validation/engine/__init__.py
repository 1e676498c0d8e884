"""Readings of prompts by arms: computed once, kept by content hash, in this process or in others."""
