"""The failure museum: known faults of key-value cache quantizers as seeded exhibits, and the gate that stops each."""
