"""The benchmark of the search compares what both sides find, and measures each."""

from __future__ import annotations

import pytest

from flexkg.bench import search


def test_every_way_finds_the_same_on_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the index is made of compiled kernels (extra fast)")
    said: list[str] = []
    figures = search.run(3000, report=said.append)
    assert list(figures) == ["l1_clustered", "box_clustered", "l1_uniform", "box_uniform"]
    assert len(said) == 4
    for row in figures.values():
        assert set(row) == {
            "all_ms", "streamed_ms", "index_ms", "ratio", "scored", "index_mb", "build_seconds"
        }  # fmt: skip
        assert 10 <= row["scored"] <= 3000
        # 47 blocks of 64 entities: a byte a coordinate, eight an entity.
        assert row["index_mb"] == 47 * 64 * (search.DIMENSION + 8) / 1e6
    monkeypatch.setenv("FLEXKG_PLAIN", "1")
    assert search.run(100, report=said.append) == {}
