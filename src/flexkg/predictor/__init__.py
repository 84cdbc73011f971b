"""Asks a trained run: known and predicted answers in one ranking, with probabilities and reasons."""
