"""Encodings of keys and of values, one method per file, and the arms that pair them."""
