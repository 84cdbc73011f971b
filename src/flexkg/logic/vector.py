"""Vector logic: truth values are vectors, connectives are matrices (the paper's section on vector logic, as code).

Two orthonormal vectors stand for true (`s`) and false (`n`). A monadic operator is a matrix over them, a dyadic
one a matrix over their Kronecker products: for each row of the truth table, the outer product of the value with
the pair of arguments, and the sum of these. A weighted truth value a*s + (1 - a)*n carries an uncertainty; what
an operator does to it, read along s, is a polynomial in the weights. These scalar forms are derived here from the
matrices, never written down, and are the oracle for `flexkg.logic.fuzzy`.

Mizraji, Vector logics: the matrix-vector representation of logical calculus (1992); Lin et al., FLEX, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class TruthSpace:
    """The two truth vectors, orthonormal and of any width; each (width,)."""

    s: Tensor
    n: Tensor

    def vector(self, weight: Tensor | float) -> Tensor:
        """Weighted truth value: weight * s + (1 - weight) * n; (...) -> (..., width)."""
        alpha = torch.as_tensor(weight, dtype=self.s.dtype)[..., None]
        return alpha * self.s + (1 - alpha) * self.n

    def weight(self, vector: Tensor) -> Tensor:
        """Scalar projection onto true; (..., width) -> (...)."""
        return vector @ self.s

    @cached_property
    def identity(self) -> Tensor:
        """I = s s' + n n'; (width, width)."""
        return torch.outer(self.s, self.s) + torch.outer(self.n, self.n)

    @cached_property
    def negation(self) -> Tensor:
        """N = n s' + s n'; (width, width)."""
        return torch.outer(self.n, self.s) + torch.outer(self.s, self.n)

    def matrix(self, operator: Dyadic) -> Tensor:
        """Sum over the truth table of value (left x right)'; (width, width * width), so 2 x 4 in two dimensions."""
        pairs = [(self.s, self.s), (self.s, self.n), (self.n, self.s), (self.n, self.n)]
        terms = [
            torch.outer(self.s if value else self.n, torch.kron(left, right))
            for value, (left, right) in zip(operator.table, pairs, strict=True)
        ]
        return torch.stack(terms).sum(dim=0)

    def apply(self, operator: Dyadic, left: Tensor, right: Tensor) -> Tensor:
        """The matrix times the Kronecker product of two vectors, row by row; (..., width) twice -> (..., width)."""
        product = left[..., :, None] * right[..., None, :]
        return product.flatten(-2) @ self.matrix(operator).T


def standard_space(dtype: torch.dtype = torch.float64) -> TruthSpace:
    """s = (1, 0) and n = (0, 1)."""
    s, n = torch.eye(2, dtype=dtype)
    return TruthSpace(s, n)


def rotated_space(angle: float, dtype: torch.dtype = torch.float64) -> TruthSpace:
    """The standard space turned by an angle: the scalar forms must not depend on the choice of s and n."""
    turn = torch.tensor(angle, dtype=dtype)
    return TruthSpace(torch.stack([turn.cos(), turn.sin()]), torch.stack([-turn.sin(), turn.cos()]))


@dataclass(frozen=True)
class Dyadic:
    """A connective of two arguments by its truth table: its value at (s, s), (s, n), (n, s), (n, n)."""

    name: str
    letter: str
    """The matrix's usual letter, or an empty string where it has none."""
    table: tuple[bool, bool, bool, bool]


def _dyadic(name: str, letter: str, table: str) -> Dyadic:
    ss, sn, ns, nn = (digit == "1" for digit in table)
    return Dyadic(name, letter, (ss, sn, ns, nn))


FALSE = _dyadic("false", "", "0000")
NOR = _dyadic("nor", "P", "0001")
CONVERSE_MINUS = _dyadic("converse-minus", "", "0010")
NOT_LEFT = _dyadic("not-left", "", "0011")
MINUS = _dyadic("minus", "", "0100")
NOT_RIGHT = _dyadic("not-right", "", "0101")
XOR = _dyadic("xor", "X", "0110")
NAND = _dyadic("nand", "S", "0111")
AND = _dyadic("and", "C", "1000")
IFF = _dyadic("iff", "E", "1001")
RIGHT = _dyadic("right", "", "1010")
IMPLIES = _dyadic("implies", "L", "1011")
LEFT = _dyadic("left", "", "1100")
CONVERSE_IMPLIES = _dyadic("converse-implies", "", "1101")
OR = _dyadic("or", "D", "1110")
TRUE = _dyadic("true", "", "1111")

DYADIC: dict[str, Dyadic] = {
    operator.name: operator
    for operator in (
        FALSE,
        NOR,
        CONVERSE_MINUS,
        NOT_LEFT,
        MINUS,
        NOT_RIGHT,
        XOR,
        NAND,
        AND,
        IFF,
        RIGHT,
        IMPLIES,
        LEFT,
        CONVERSE_IMPLIES,
        OR,
        TRUE,
    )
}
"""All sixteen dyadic operators by name."""


@dataclass(frozen=True)
class Bilinear:
    """constant + left * a + right * b + both * a * b: what a dyadic operator does to weights."""

    constant: float
    left: float
    right: float
    both: float

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Apply to weights of any equal or broadcastable shapes."""
        return self.constant + self.left * a + self.right * b + self.both * (a * b)


def scalar_form(operator: Dyadic, space: TruthSpace | None = None) -> Bilinear:
    """The polynomial s' M (u x v) in the weights of u and v, read off the operator's matrix M."""
    space = space or standard_space()

    def value(left: Tensor, right: Tensor) -> float:
        # Truth tables hold nothing but 0 and 1, so that rounding takes off only what floating point added.
        return float(round(space.weight(space.apply(operator, left, right)).item()))

    ss, sn, ns, nn = (value(left, right) for left in (space.s, space.n) for right in (space.s, space.n))
    return Bilinear(constant=nn, left=sn - nn, right=ns - nn, both=ss - sn - ns + nn)
