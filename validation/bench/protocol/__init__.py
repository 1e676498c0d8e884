"""The performance protocol: thirteen measurements for every arm and context length, end to end and part by part."""
