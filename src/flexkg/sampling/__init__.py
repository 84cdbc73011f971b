"""Grounded queries with their answers: sampled, stored, and drawn from while training."""
