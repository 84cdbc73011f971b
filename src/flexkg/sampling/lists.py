"""Lists of entities, one for each of many queries, on the device where batches are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flexkg.sampling.queries import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flexkg.sampling.draws import Draws


class Lists:
    """Queries are numbered through; the list of one is `members[starts[i] : starts[i] + lengths[i]]`."""

    def __init__(self, columns: Sequence[Column], device: torch.device | str, spare: float = 0.0) -> None:
        """`spare` is the share of room beyond these lists that is kept for `replace`."""
        joined = Column.joined(columns)
        self.lengths = torch.from_numpy(joined.lengths).to(device)
        self.starts = torch.from_numpy(joined.offsets[:-1]).to(device)
        self.members = torch.zeros(int(len(joined.members) * (1 + spare)) or 1, dtype=torch.int32, device=device)
        self.members[: len(joined.members)] = torch.from_numpy(joined.members).to(device)

    def fits(self, columns: Sequence[Column]) -> bool:
        """Whether other lists, as many as these, can take their place."""
        same = sum(len(column) for column in columns) == len(self.lengths)
        return same and sum(len(column.members) for column in columns) <= len(self.members)

    def replace(self, columns: Sequence[Column]) -> None:
        """Put other lists in the place of these, where a captured CUDA graph finds them; they must fit."""
        joined = Column.joined(columns)
        self.lengths.copy_(torch.from_numpy(joined.lengths))
        self.starts.copy_(torch.from_numpy(joined.offsets[:-1]))
        self.members[: len(joined.members)] = torch.from_numpy(joined.members).to(self.members.device)

    def at(self, places: Tensor) -> Tensor:
        """Members by their place among all of them; a place behind the last is that of the last."""
        return self.members[places.clamp_(max=len(self.members) - 1)]

    def draw(self, queries: Tensor, count: int, random: Draws) -> Tensor:
        """`count` independent uniform members of each query's list, (n, count); anything of an empty one."""
        return self.at(self.starts[queries][:, None] + random.below(self.lengths[queries], count)).to(torch.int64)
