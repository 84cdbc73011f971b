"""Plans for tests of what works tables off: two small models on the built-in graph."""

TABLE = """
[content.tiny]
title = "A tiny table"
source = "a test"
kind = "mrr"
unit = "MRR × 100"
columns = ["1p"]
rows = [{ dataset = "world", row = "One", values = [10.0] }, { dataset = "world", row = "Two", values = [10.0] }]
"""

_SMALL = ["model.dim=8", "training.batch_size=16", "training.shapes=1p"]


def two_models(one: str = "training.steps=30", two: str = "training.steps=30") -> str:
    """A plan whose models have each another setting beside those that keep them small; the last one counts."""
    models = {"One": ("flex-small", [*_SMALL, "model.hidden=16", one]), "Two": ("gqe", [*_SMALL, two])}
    entries = (
        f'[models.{name}]\nrecipe = "{recipe}"\nset = {settings}\nshapes = ["1p"]\n'
        for name, (recipe, settings) in models.items()
    )
    return "\n".join(["seed = 3\n", *entries, TABLE])
