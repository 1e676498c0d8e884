"""Fuzzing of what reads bytes from outside: the saved-cache reader and the page header's parser."""
