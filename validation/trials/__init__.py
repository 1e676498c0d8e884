"""Trials: what a stop rule judges, measured for real on one machine; each gives a small record that can be JSON."""
