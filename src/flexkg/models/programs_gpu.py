"""The programs that `kernels_gpu` launches, in Triton.

All of it is bound by moving rows of the table, not by arithmetic, but for all pairs, where a tile of 64 x 64 distances
stays in registers while it runs along the dimension and its operands come transposed, so that neighbours lie together.

| program | one instance computes | bytes it must move |
|---|---|---|
| `tile` | 64 rows x 64 candidates | n·c·4 out; operands from the caches: bound by arithmetic |
| `gathered` | one row, 16 of its candidates | n·c·d·4, or ·2 with a table in bfloat16 |
| `to_queries` | the gradient of one row, 128 dimensions | n·c·d·4 again |
| `to_table` | the gradient of one entity, 256 dimensions | n·c·d·4 of queries, which the second cache holds |
| `to_table_atomic` | the share of one row in its candidates' gradients | n·c·d·4 read, n·c·d·8 added in place |

`KIND` counts `kernels_gpu.KINDS`; `per` rows share the c candidates of a chunk.
"""
# Compile-time constants are in capitals, as Triton writes them; its `if` on one is no expression.
# ruff: noqa: N803, N806, SIM108

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _distance(KIND: tl.constexpr, q0, q1, q2, q3, t0, t1, extra, inside):
    """One dimension's share of the distance."""
    if KIND == 0:
        result = tl.abs(q0 - t0)
    elif KIND == 1:
        a = tl.abs(q0 - t0)
        result = inside * a + extra * tl.maximum(a - q1, 0.0)
    elif KIND == 2:
        s = tl.abs(t1 * q0 - t0 * q1)
        c = tl.abs(t0 * q0 + t1 * q1)
        result = tl.maximum(s * q2 - c * q3, 0.0) + inside * tl.minimum(s, q3)
    elif KIND == 3:
        result = q0 * t0
    else:
        x = t0 - q0
        y = t1 - q1
        result = tl.sqrt(x * x + y * y)
    return result


@triton.jit
def _slopes(KIND: tl.constexpr, q0, q1, q2, q3, t0, t1, g, extra, inside):
    """Its derivatives, times g, by the candidate and by the first and second vector of the query.

    By the second vector of a candidate, where it has one, it is the opposite of that by the query's.
    """
    if KIND == 0:
        x = t0 - q0
        by_table = tl.where(x > 0, g, tl.where(x < 0, -g, 0.0))
        by_first = -by_table
        by_second = by_first
    elif KIND == 1:
        x = t0 - q0
        far = tl.where(tl.abs(x) > q1, g * extra, 0.0)
        step = g * inside + far
        by_table = tl.where(x > 0, step, tl.where(x < 0, -step, 0.0))
        by_first = -by_table
        by_second = -far
    elif KIND == 2:
        s = t1 * q0 - t0 * q1
        c = t0 * q0 + t1 * q1
        size_s = tl.abs(s)
        size_c = tl.abs(c)
        outside = size_s * q2 - size_c * q3 > 0
        on_s = c * (tl.where(outside, q2, 0.0) + tl.where(size_s < q3, inside, 0.0))
        on_c = tl.where(outside, s * q3, 0.0)
        by_s = tl.where(s > 0, on_s, tl.where(s < 0, -on_s, 0.0))
        by_c = tl.where(c > 0, on_c, tl.where(c < 0, -on_c, 0.0))
        by_table = 0.5 * g * (by_s + by_c)
        by_first = -by_table
        edge = tl.where(size_s >= q3, inside * q2, 0.0)
        by_second = g * (edge - tl.where(outside, size_s * q3 + size_c * q2, 0.0))
    elif KIND == 3:
        by_table = g * q0
        by_first = g * t0
        by_second = by_first
    else:
        x = t0 - q0
        y = t1 - q1
        length = tl.sqrt(x * x + y * y)
        scale = tl.where(length > 0, g / tl.where(length > 0, length, 1.0), 0.0)
        by_table = x * scale
        by_first = -by_table
        by_second = -y * scale
    return by_table, by_first, by_second


@triton.jit
def _half(u):
    """Cosine and sine of half an angle from u, the tangent of a quarter of it: a division in place of two functions."""
    square = u * u
    scale = 1.0 / (1.0 + square)
    return (1.0 - square) * scale, 2.0 * u * scale


@triton.jit
def _query_parts(KIND: tl.constexpr, at, d, mask):
    """What a distance needs of a packed query; what a kind lacks is never used."""
    q0 = tl.load(at, mask=mask, other=0.0)
    q1 = q0
    q2 = q0
    q3 = q0
    if KIND == 1 or KIND == 4:
        q1 = tl.load(at + d, mask=mask, other=0.0)
    if KIND == 2:
        q2, q3 = _half(tl.load(at + d, mask=mask, other=0.0))
        q2 = tl.abs(q2)
        q3 = tl.abs(q3)
        q0, q1 = _half(q0)
    return q0, q1, q2, q3


@triton.jit
def _table_parts(KIND: tl.constexpr, at, d, mask):
    t0 = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    t1 = t0
    if KIND == 2:
        t0, t1 = _half(t0)
    if KIND == 4:
        t1 = tl.load(at + d, mask=mask, other=0.0).to(tl.float32)
    return t0, t1


@triton.jit
def tile(
    queries,
    table,
    out,
    per,
    c,
    d,
    extra,
    inside,
    KIND: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
):
    """queries (chunks, parts * d, per) and table (chunks, parts * d, c), both transposed; out (chunks, per, c).

    Of cones the parts are those of `kernels_gpu._wide`.
    """
    PARTS: tl.constexpr = 4 if KIND == 2 else (2 if KIND == 1 or KIND == 4 else 1)
    TABLE_PARTS: tl.constexpr = 2 if KIND == 2 or KIND == 4 else 1
    pid = tl.program_id(0).to(tl.int64)
    high = tl.cdiv(per, BN)
    wide = tl.cdiv(c, BM)
    rows = (pid % high) * BN + tl.arange(0, BN)
    columns = (pid // high % wide) * BM + tl.arange(0, BM)
    chunk = pid // (high * wide)
    in_rows = rows < per
    in_columns = columns < c
    at_q = queries + chunk * PARTS * d * per + rows
    at_t = table + chunk * TABLE_PARTS * d * c + columns
    acc = tl.zeros((BN, BM), tl.float32)
    for _ in range(d):
        q0 = tl.load(at_q, mask=in_rows, other=0.0)
        t0 = tl.load(at_t, mask=in_columns, other=0.0).to(tl.float32)
        q1 = q0
        q2 = q0
        q3 = q0
        t1 = t0
        if PARTS > 1:
            q1 = tl.load(at_q + tl.cast(d, tl.int64) * per, mask=in_rows, other=0.0)
        if KIND == 2:
            q2 = tl.load(at_q + tl.cast(d, tl.int64) * per * 2, mask=in_rows, other=0.0)
            q3 = tl.load(at_q + tl.cast(d, tl.int64) * per * 3, mask=in_rows, other=0.0)
        if TABLE_PARTS > 1:
            t1 = tl.load(at_t + tl.cast(d, tl.int64) * c, mask=in_columns, other=0.0).to(tl.float32)
        acc += _distance(
            KIND, q0[:, None], q1[:, None], q2[:, None], q3[:, None], t0[None, :], t1[None, :], extra, inside
        )
        at_q += per
        at_t += c
    at = out + (chunk * per + rows[:, None]) * c + columns[None, :]
    tl.store(at, acc, mask=in_rows[:, None] & in_columns[None, :])


@triton.jit
def gathered(
    queries,
    table,
    ids,
    out,
    per,
    c,
    d,
    extra,
    inside,
    KIND: tl.constexpr,
    BC: tl.constexpr,
    BD: tl.constexpr,
):
    """Distances (n, c) of rows to the candidates that are listed for each."""
    PARTS: tl.constexpr = 2 if KIND == 1 or KIND == 2 or KIND == 4 else 1
    TABLE_PARTS: tl.constexpr = 2 if KIND == 4 else 1
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(c, BC)
    row = pid // blocks
    places = (pid % blocks) * BC + tl.arange(0, BC)
    listed = places < c
    entities = tl.load(ids + (row // per) * c + places, mask=listed, other=0)
    at_t = table + entities[:, None] * (TABLE_PARTS * d)
    acc = tl.zeros((BC, BD), tl.float32)
    for start in range(0, d, BD):
        dims = start + tl.arange(0, BD)
        inner = dims < d
        q0, q1, q2, q3 = _query_parts(KIND, queries + row * (PARTS * d) + dims, d, inner)
        # Past the last dimension nothing differs, and the distance is 0.
        t0, t1 = _table_parts(KIND, at_t + dims[None, :], d, listed[:, None] & inner[None, :])
        acc += _distance(KIND, q0[None, :], q1[None, :], q2[None, :], q3[None, :], t0, t1, extra, inside)
    tl.store(out + row * c + places, tl.sum(acc, axis=1), mask=listed)


@triton.jit
def to_queries(
    queries, table, ids, grad, out, per, c, d, extra, inside,
    KIND: tl.constexpr, LISTED: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradient of the packed queries, over all their candidates."""
    PARTS: tl.constexpr = 2 if KIND == 1 or KIND == 2 or KIND == 4 else 1
    TABLE_PARTS: tl.constexpr = 2 if KIND == 4 else 1
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(d, BD)
    row = pid // blocks
    dims = (pid % blocks) * BD + tl.arange(0, BD)
    inner = dims < d
    q0, q1, q2, q3 = _query_parts(KIND, queries + row * (PARTS * d) + dims, d, inner)
    first = tl.zeros((BC, BD), tl.float32)
    second = tl.zeros((BC, BD), tl.float32)
    for start in range(0, c, BC):
        places = start + tl.arange(0, BC)
        listed = places < c
        if LISTED:
            entities = tl.load(ids + (row // per) * c + places, mask=listed, other=0)
        else:
            entities = places.to(tl.int64)
        g = tl.load(grad + row * c + places, mask=listed, other=0.0)
        at = table + entities[:, None] * (TABLE_PARTS * d) + dims[None, :]
        t0, t1 = _table_parts(KIND, at, d, listed[:, None] & inner[None, :])
        _, by_first, by_second = _slopes(
            KIND, q0[None, :], q1[None, :], q2[None, :], q3[None, :], t0, t1, g[:, None], extra, inside
        )
        first += by_first
        second += by_second
    at_out = out + row * (PARTS * d) + dims
    tl.store(at_out, tl.sum(first, axis=0), mask=inner)
    if PARTS == 2:
        tl.store(at_out + d, tl.sum(second, axis=0), mask=inner)


@triton.jit
def to_table(
    queries, table, order, offsets, grad, out, per, c, d, extra, inside,
    KIND: tl.constexpr, LISTED: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradient of the table, over all rows that an entity is a candidate of."""
    PARTS: tl.constexpr = 2 if KIND == 1 or KIND == 2 or KIND == 4 else 1
    TABLE_PARTS: tl.constexpr = 2 if KIND == 4 else 1
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(d, BD)
    entity = pid // blocks
    dims = (pid % blocks) * BD + tl.arange(0, BD)
    inner = dims < d
    t0, t1 = _table_parts(KIND, table + entity * (TABLE_PARTS * d) + dims, d, inner)
    if LISTED:
        begin = tl.load(offsets + entity)
        count = (tl.load(offsets + entity + 1) - begin) * per
    else:
        begin = entity
        count = tl.cast(per, tl.int64)
    acc = tl.zeros((BC, BD), tl.float32)
    second = tl.zeros((BC, BD), tl.float32)
    for start in range(0, count, BC):
        step = start + tl.arange(0, BC)
        valid = step < count
        if LISTED:
            place = tl.load(order + begin + step // per, mask=valid, other=0)
            rows = (place // c) * per + step % per
            at = rows * c + place % c
        else:
            rows = step.to(tl.int64)
            at = rows * c + entity
        g = tl.load(grad + at, mask=valid, other=0.0)
        q0, q1, q2, q3 = _query_parts(
            KIND, queries + rows[:, None] * (PARTS * d) + dims[None, :], d, valid[:, None] & inner[None, :]
        )
        by_table, _, by_second = _slopes(KIND, q0, q1, q2, q3, t0[None, :], t1[None, :], g[:, None], extra, inside)
        acc += by_table
        if TABLE_PARTS == 2:
            second -= by_second
    at_out = out + entity * (TABLE_PARTS * d) + dims
    tl.store(at_out, tl.sum(acc, axis=0), mask=inner)
    if TABLE_PARTS == 2:
        tl.store(at_out + d, tl.sum(second, axis=0), mask=inner)


@triton.jit
def to_table_atomic(
    queries, table, ids, grad, out, per, c, d, extra, inside,
    KIND: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradient of the table, added up where the candidates fall."""
    PARTS: tl.constexpr = 2 if KIND == 1 or KIND == 2 or KIND == 4 else 1
    TABLE_PARTS: tl.constexpr = 2 if KIND == 4 else 1
    pid = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(c, BC)
    row = pid // blocks
    places = (pid % blocks) * BC + tl.arange(0, BC)
    listed = places < c
    entities = tl.load(ids + (row // per) * c + places, mask=listed, other=0)
    g = tl.load(grad + row * c + places, mask=listed, other=0.0)
    for start in range(0, d, BD):
        dims = start + tl.arange(0, BD)
        inner = dims < d
        both = listed[:, None] & inner[None, :]
        q0, q1, q2, q3 = _query_parts(KIND, queries + row * (PARTS * d) + dims, d, inner)
        at = entities[:, None] * (TABLE_PARTS * d) + dims[None, :]
        t0, t1 = _table_parts(KIND, table + at, d, both)
        by_table, _, by_second = _slopes(
            KIND, q0[None, :], q1[None, :], q2[None, :], q3[None, :], t0, t1, g[:, None], extra, inside
        )
        tl.atomic_add(out + at, by_table, mask=both, sem="relaxed")
        if TABLE_PARTS == 2:
            tl.atomic_add(out + at + d, -by_second, mask=both, sem="relaxed")
