"""Distances between query states and entities, without a (rows, candidates, dimension) temporary.

Every distance comes in two forms: against a whole table, `l1(queries, table)`, and against listed candidates,
`l1_gathered(queries, table, ids)`. `ids` is (n, c), a list for every row, or (chunks, c) with n a multiple of chunks:
a list for each run of n / chunks rows. Gradients are exact and reach queries and table.

Three ways to compute, chosen by where the tensors are: compiled loops on the CPU (extra `fast`), Triton kernels on a
GPU, and chunked tensor operations anywhere else or where $FLEXKG_PLAIN is set. Where a distance has a kink, all take
the same side: the derivative of |x| is 0 at 0, and that of relu(x) too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from flexkg.models.pairs import BUDGET, Reduction, find_kernels, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Kind = Literal["l1", "l2", "box", "cone", "beta", "divergence", "dot", "modulus"]


def l1(queries: Tensor, table: Tensor, *, memory: int = BUDGET) -> Tensor:
    """Σ|q - t|: (n, d), (m, d) -> (n, m). GQE, and FLEX by the paper."""
    return pairs("l1", [queries], table, None, 0.0, 0.0, "sorted", memory)


def l1_gathered(
    queries: Tensor, table: Tensor, ids: Tensor, *, reduction: Reduction = "sorted", memory: int = BUDGET
) -> Tensor:
    """Σ|q - t| to listed candidates: (n, d), (m, d), (n or chunks, c) -> (n, c)."""
    return pairs("l1", [queries], table, ids, 0.0, 0.0, reduction, memory)


def box(
    centre: Tensor,
    offset: Tensor,
    table: Tensor,
    outside_weight: float = 1.0,
    inside_weight: float = 0.02,
    *,
    memory: int = BUDGET,
) -> Tensor:
    """Σ outside_weight·relu(a - o) + inside_weight·min(a, o) with a = |t - c|: (n, d), (n, d), (m, d) -> (n, m).

    Query2box's distance, and FLEX's boundary distance: for o ≥ 0 and a ≥ o the nearer of the two edges c ± o is
    a - o away. Since min(a, o) = a - relu(a - o) it is also Σ (outside - inside)·relu(a - o) + inside·a.
    """
    return pairs("box", [centre, offset], table, None, outside_weight, inside_weight, "sorted", memory)


def box_gathered(
    centre: Tensor,
    offset: Tensor,
    table: Tensor,
    ids: Tensor,
    outside_weight: float = 1.0,
    inside_weight: float = 0.02,
    *,
    reduction: Reduction = "sorted",
    memory: int = BUDGET,
) -> Tensor:
    """`box` to listed candidates: (n, d), (n, d), (m, d), (n or chunks, c) -> (n, c)."""
    return pairs("box", [centre, offset], table, ids, outside_weight, inside_weight, reduction, memory)


def cone(axis: Tensor, aperture: Tensor, table: Tensor, inside_weight: float = 0.02, *, memory: int = BUDGET) -> Tensor:
    """ConE's distance: Σ outside + inside_weight·inside: (n, d), (n, d), (m, d) -> (n, m).

    With S(v) = |sin(v/2)|, inside is min(S(e - axis), S(aperture)) and outside, where S(e - axis) ≥ S(aperture), is
    the lesser of S(e - axis ± aperture). With x = (e - axis)/2 and y = aperture/2 these two are
    |sin x cos y ± cos x sin y|, the lesser is ||sin x||cos y| - |cos x||sin y||, and its inside is negative exactly
    where outside is 0. So outside = relu(|sin x||cos y| - |cos x||sin y|), and the kernels need no sine of their own:
    sin x and cos x are sums of products of the sines and cosines of e/2 and axis/2.
    """
    return pairs("cone", [axis, aperture], table, None, 1.0, inside_weight, "sorted", memory)


def cone_gathered(
    axis: Tensor,
    aperture: Tensor,
    table: Tensor,
    ids: Tensor,
    inside_weight: float = 0.02,
    *,
    reduction: Reduction = "sorted",
    memory: int = BUDGET,
) -> Tensor:
    """`cone` to listed candidates: (n, d), (n, d), (m, d), (n or chunks, c) -> (n, c)."""
    return pairs("cone", [axis, aperture], table, ids, 1.0, inside_weight, reduction, memory)


def between(
    kind: Literal["l2", "modulus", "dot"],
    queries: Tensor,
    table: Tensor,
    ids: Tensor | None = None,
    *,
    memory: int = BUDGET,
) -> Tensor:
    """The link predictors' distances (see `reference`): (n, d), (m, d) -> (n, m), or (n, c) to listed candidates."""
    return pairs(kind, [queries], table, ids, 0.0, 0.0, "sorted", memory)


# ---------------------------------------------------------------- Beta densities


def beta(alpha: Tensor, beta: Tensor, entity_alpha: Tensor, entity_beta: Tensor, *, memory: int = BUDGET) -> Tensor:
    """Σ|KL(Beta(entity) ‖ Beta(query))|, BetaE's distance: (n, d), (n, d), (m, d), (m, d) -> (n, m).

    A divergence is never negative, so the bars are for rounding alone and the sum is linear in the query but for a
    constant of its own: one matrix product. Terms of thousands cancel in it, hence float64 throughout.
    """
    query, own = _query(alpha, beta)
    keep = torch.is_grad_enabled() and any(part.requires_grad for part in (alpha, beta, entity_alpha, entity_beta))

    def block(query: Tensor, own: Tensor, entity_alpha: Tensor, entity_beta: Tensor) -> Tensor:
        return _against(query, own, *_linear(entity_alpha.double(), entity_beta.double())).to(alpha.dtype)

    # Computed again in the backward pass: what autograd would keep is a dozen tables.
    again = partial(checkpoint, block, use_reentrant=False) if keep else block
    return torch.cat([again(query, own, *rows) for rows in _blocks(entity_alpha, entity_beta, memory)], dim=1)


@torch.no_grad()
def prepare_beta(entity_alpha: Tensor, entity_beta: Tensor, *, memory: int = BUDGET) -> Tensor:
    """What `beta` computes of entities alone, (m, 2d + 1) in float64: slopes along [α ; β] of a query, and constants.

    It is most of the cost where queries are few, and serves many calls of `divergence`; no gradient reaches entities.
    """
    prepared = entity_alpha.new_empty(len(entity_alpha), 2 * entity_alpha.shape[1] + 1, dtype=torch.float64)
    done = 0
    for alpha, beta in _blocks(entity_alpha, entity_beta, memory):
        block = prepared[done : done + len(alpha)]
        block[:, :-1], block[:, -1] = _linear(alpha.double(), beta.double())
        done += len(alpha)
    return prepared


def divergence(alpha: Tensor, beta: Tensor, prepared: Tensor, *, memory: int = BUDGET) -> Tensor:
    """`beta` against prepared entities: (n, d), (n, d), (m, 2d + 1) -> (n, m)."""
    query, own = _query(alpha, beta)
    blocks = torch.split(prepared, max(1, memory // (2 * 8 * max(1, len(query)))))
    found = [_against(query, own, block[:, :-1], block[:, -1]).to(alpha.dtype) for block in blocks]
    return torch.cat(found, dim=1)


def divergence_gathered(
    alpha: Tensor,
    beta: Tensor,
    prepared: Tensor,
    ids: Tensor,
    *,
    reduction: Reduction = "sorted",
    memory: int = BUDGET,
) -> Tensor:
    """`beta_gathered` of prepared entities: (n, d), (n, d), (m, 2d + 1), (n or chunks, c) -> (n, c)."""
    rows = prepared.to(_precision(alpha))
    return _to_listed(alpha, beta, rows[:, :-1], rows[:, -1], ids, reduction, memory)


def beta_gathered(
    alpha: Tensor,
    beta: Tensor,
    entity_alpha: Tensor,
    entity_beta: Tensor,
    ids: Tensor,
    *,
    reduction: Reduction = "sorted",
    memory: int = BUDGET,
) -> Tensor:
    """`beta` to listed candidates: (n, d), (n, d), (m, d), (m, d), (n or chunks, c) -> (n, c).

    Logarithms of gamma functions are taken once an entity, not once a candidate: on the CPU for those that occur, on
    a GPU for the whole table, whose size, unlike theirs, is known beforehand. A GPU computes in the given precision.
    """
    if alpha.device.type == "cpu":
        occurring, ids = torch.unique(ids, return_inverse=True)
        entity_alpha, entity_beta = entity_alpha[occurring], entity_beta[occurring]
    precision = _precision(alpha)
    return _to_listed(
        alpha, beta, *_linear(entity_alpha.to(precision), entity_beta.to(precision)), ids, reduction, memory
    )


def _to_listed(
    alpha: Tensor, beta: Tensor, slope: Tensor, constant: Tensor, ids: Tensor, reduction: Reduction, memory: int
) -> Tensor:
    query, own = _query(alpha, beta, slope.dtype)
    product = pairs("dot", [query], slope, ids, 0.0, 0.0, reduction, memory)
    shared = constant[ids].repeat_interleave(len(alpha) // max(1, len(ids)), dim=0)
    return (product + shared + own).to(alpha.dtype)


def _against(query: Tensor, own: Tensor, slope: Tensor, constant: Tensor) -> Tensor:
    return torch.addmm(constant, query, slope.T) + own


def _precision(given: Tensor) -> torch.dtype:
    """What listed candidates are computed in."""
    return torch.float64 if given.device.type == "cpu" else given.dtype


def _query(alpha: Tensor, beta: Tensor, precision: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """[α ; β] of the queries, (n, 2d), and their constants, (n, 1)."""
    alpha, beta = alpha.to(precision), beta.to(precision)
    return torch.cat([alpha, beta], dim=1), _log_beta(alpha, beta)[:, None]


def _blocks(alpha: Tensor, beta: Tensor, memory: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Entities, as many at a time as a dozen float64 temporaries of their width leave room for."""
    step = max(1, memory // (12 * 8 * max(1, alpha.shape[1])))
    yield from zip(torch.split(alpha, step), torch.split(beta, step), strict=True)


def _log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    """Σ ln B(α, β) of each row."""
    return (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)).sum(-1)


def _linear(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """An entity's divergence as a function of the query: slope (m, 2d) along [α ; β] and constant (m,)."""
    result: tuple[Tensor, Tensor] = _Linear.apply(alpha, beta)  # type: ignore[no-untyped-call]
    return result


class _Linear(torch.autograd.Function):
    """`_linear`, with its gradient written down.

    With slope s = (ψ(α + β) − ψ(α), ψ(α + β) − ψ(β)) the constant is −ln B(α, β) − s · (α, β), and ∂(ln B) = −s: what
    autograd adds up of s itself cancels, and ∂constant = −(α, β) · ∂s. So only ∂s is left, which takes ψ′ alone.
    """

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(alpha, beta)
        total = torch.digamma(alpha + beta)
        slope = torch.cat([total - torch.digamma(alpha), total - torch.digamma(beta)], dim=1)
        return slope, -_log_beta(alpha, beta) - (slope * torch.cat([alpha, beta], dim=1)).sum(-1)

    @staticmethod
    def backward(ctx: Any, along: Tensor, constant: Tensor) -> tuple[Tensor, Tensor]:
        alpha, beta = ctx.saved_tensors
        first, second = (along - constant[:, None] * torch.cat([alpha, beta], dim=1)).chunk(2, dim=1)
        both = (first + second) * torch.polygamma(1, alpha + beta)
        return both - first * torch.polygamma(1, alpha), both - second * torch.polygamma(1, beta)


# ---------------------------------------------------------------- the nearest


class Nearest(NamedTuple):
    """The k nearest entities of each row, nearest first."""

    distances: Tensor
    ids: Tensor


def top_k(
    kind: Kind,
    queries: Sequence[Tensor],
    table: Sequence[Tensor],
    k: int,
    *,
    outside_weight: float = 1.0,
    inside_weight: float = 0.02,
    memory: int = BUDGET,
) -> Nearest:
    """The k nearest entities of each row, exactly, a block of the table at a time; of equal ones the lower id first.

    Queries and table in parts as the distance takes them: (queries,), (centre, offset), (axis, aperture) or
    (alpha, beta), and (table,), (entity_alpha, entity_beta) or, for `divergence`, what `prepare_beta` returns.
    """
    rows, entities = len(queries[0]), len(table[0])
    k = min(k, entities)
    # A block of distances, and on the tensor path its keys, ids and the sorted copy.
    step = max(k, 1, memory // (2 * 40 * max(1, rows)))

    def distance(parts: list[Tensor]) -> Tensor:
        if kind == "beta":
            return beta(queries[0], queries[1], parts[0], parts[1], memory=memory // 2)
        if kind == "divergence":
            return divergence(queries[0], queries[1], parts[0], memory=memory // 2)
        weights = outside_weight, inside_weight
        return pairs(kind, list(queries), parts[0], None, *weights, "sorted", memory // 2)

    with torch.no_grad():
        merge = _merger(queries[0])
        values = queries[0].new_full((rows, k), torch.inf)
        # Past the last entity: even an infinite distance comes before a place that nothing has filled.
        ids = torch.full((rows, k), entities, device=values.device)
        for start in range(0, entities if k else 0, step):
            values, ids = merge(distance([part[start : start + step] for part in table]), start, values, ids)
    return Nearest(values, ids)


def _merger(queries: Tensor) -> Callable[[Tensor, int, Tensor, Tensor], tuple[Tensor, Tensor]]:
    kernels = find_kernels(queries, queries)
    if kernels is None or queries.device.type != "cpu":
        return _merge
    compiled: Callable[[Tensor, int, Tensor, Tensor], tuple[Tensor, Tensor]] = kernels.merge_smallest
    return compiled


def _merge(scores: Tensor, base: int, values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The k smallest of the ones so far and a block of new ones."""
    names = torch.arange(base, base + scores.shape[1], device=scores.device).expand_as(scores)
    scores = scores.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    k = values.shape[1]
    if base:  # before the first block nothing is filled
        scores, names = torch.cat([values, scores], dim=1), torch.cat([ids, names], dim=1)
    if scores.dtype == torch.float32:
        # Distance and id as one integer: its order is the order wanted, and no two are equal. -0.0 becomes 0.0, and
        # negative numbers, whose bits run backwards, are turned round.
        bits = (scores + 0.0).view(torch.int32).long()
        key = (bits ^ ((bits >> 31) & 0x7FFFFFFF)) << 32 | names
        places = key.topk(k, dim=1, largest=False, sorted=True).indices
    else:
        places = scores.sort(dim=1, stable=True).indices[:, :k]
    return scores.gather(1, places), names.gather(1, places)
