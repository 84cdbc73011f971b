"""Figures about speed and memory, always as a ratio to something that ran beside it."""
