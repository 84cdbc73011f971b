"""Fuzzy connectives on truth values in [0, 1]: three systems for the same slot, differentiable and n-ary.

`product` is vector logic in its scalar form; `godel` takes minimum and maximum (the paper's second pair of
operators); `lukasiewicz` adds and cuts off. Negation is 1 - x in all three, so that De Morgan's laws and double
negation hold in each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


class FuzzySystem(ABC):
    """Conjunction over a dimension of operands; everything else follows from it and from 1 - x unless overridden."""

    @abstractmethod
    def conjunction(self, values: Tensor, dim: int) -> Tensor:
        """All of the operands that lie along `dim`, which is reduced."""

    def negation(self, value: Tensor) -> Tensor:
        """1 - x."""
        return 1 - value

    def disjunction(self, values: Tensor, dim: int) -> Tensor:
        """At least one operand: the complement of the conjunction of complements, linear in the operands."""
        return 1 - self.conjunction(1 - values, dim)

    def minus(self, left: Tensor, right: Tensor) -> Tensor:
        """Left and not right."""
        return self.conjunction(torch.stack([left, 1 - right]), 0)

    def implies(self, left: Tensor, right: Tensor) -> Tensor:
        """Not (left and not right)."""
        return 1 - self.minus(left, right)

    def xor(self, left: Tensor, right: Tensor) -> Tensor:
        """One without the other."""
        return self.disjunction(torch.stack([self.minus(left, right), self.minus(right, left)]), 0)

    def iff(self, left: Tensor, right: Tensor) -> Tensor:
        """Not xor."""
        return 1 - self.xor(left, right)


class Product(FuzzySystem):
    """Vector logic's scalar forms: and is a*b, or is a + b - a*b, xor is a + b - 2*a*b."""

    def conjunction(self, values: Tensor, dim: int) -> Tensor:
        """The product."""
        # torch.prod looks at its input in its backward pass, which waits for the GPU and cannot be captured.
        return reduce(torch.mul, values.unbind(dim))

    def minus(self, left: Tensor, right: Tensor) -> Tensor:
        """a * (1 - b)."""
        return left * (1 - right)

    def xor(self, left: Tensor, right: Tensor) -> Tensor:
        """a + b - 2*a*b; the generic form would count both arguments as independent in each half."""
        return left + right - 2 * left * right


class Godel(FuzzySystem):
    """Minimum and maximum."""

    def conjunction(self, values: Tensor, dim: int) -> Tensor:
        """The minimum."""
        return values.min(dim).values

    def disjunction(self, values: Tensor, dim: int) -> Tensor:
        """The maximum."""
        return values.max(dim).values


class Lukasiewicz(FuzzySystem):
    """Bounded sums: and is max(0, a + b - 1), or is min(1, a + b), xor is |a - b|."""

    def conjunction(self, values: Tensor, dim: int) -> Tensor:
        """The sum less the number of operands plus one, cut off at 0."""
        return torch.relu(values.sum(dim) - (values.shape[dim] - 1))


SYSTEMS: Mapping[str, FuzzySystem] = {"product": Product(), "godel": Godel(), "lukasiewicz": Lukasiewicz()}
"""The interchangeable systems by name."""
