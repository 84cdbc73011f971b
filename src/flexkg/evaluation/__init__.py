"""How good a model is: filtered, tie-aware ranks of the answers that it had to predict."""
