"""A model that scores by a table, and queries to rank with it."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch

from flexkg.plan.algebra import Operator
from flexkg.plan.prepare import Interpretation, Union
from flexkg.sampling.queries import Column, QuerySet

BY = Interpretation(frozenset(Operator), Union.NATIVE)


class Fixed:
    """Scores by a table: the state of a 1p query is its entity's id."""

    def __init__(self, table):
        self.table = torch.as_tensor(table, dtype=torch.float64)
        self.num_entities = self.table.shape[1]
        self.operators = frozenset(Operator)

    def concat(self, states):
        return torch.cat(list(states))

    def take(self, state, rows):
        return state[rows]

    def entity(self, ids):
        return ids

    def project(self, state, relations):
        return state

    def keeping_candidates(self):
        return nullcontext()

    def score_all(self, state, owner=None, count=None):
        return self.table[state].clone()


def column(sets):
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    return Column(offsets, np.array([e for s in sets for e in sorted(s)], np.int32))


def query_set(easy, hard, shape="1p", hardness=None):
    """Query i of the set is row i of the table."""
    entities = np.arange(len(easy), dtype=np.int32)[:, None]
    answers = {"easy": column(easy), "hard": column(hard)}
    return QuerySet(shape, "ep", entities, np.zeros_like(entities), answers, hardness=hardness)
