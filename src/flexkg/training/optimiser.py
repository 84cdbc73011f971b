"""Adam with decoupled weight decay; of a table that outweighs a batch, only the rows that the batch touched.

All state is made at the start, in one place: a captured step must find it there, and a checkpoint restores it in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from flexkg.models.layers import Table
from flexkg.training.processes import gathered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from flexkg.config import TrainingSettings
    from flexkg.models import QueryModel

_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_OUTWEIGHS = 4
"""A table with so many times the rows that a batch can touch is updated by rows."""


class Optimiser:
    """Updates a model's parameters from their gradients."""

    def __init__(self, model: QueryModel, settings: TrainingSettings, candidates: int) -> None:
        """`candidates` is how many entities a batch lists."""
        self._model = model
        by_rows = settings.rows == "sparse" or (
            settings.rows == "auto" and model.num_entities > _OUTWEIGHS * candidates
        )
        model.sparse_rows = by_rows
        tables = [m for m in model.modules() if isinstance(m, Table) and len(m.weight) == model.num_entities]
        for table in tables:
            table.sparse = by_rows
        self._rowwise = {id(table.weight) for table in tables if by_rows}
        device = next(model.parameters()).device
        self.capturable = device.type == "cuda" and not by_rows
        self._decay, self._table_rate = settings.weight_decay, settings.table_rate
        listed = {id(m.weight) for m in model.modules() if isinstance(m, Table)}
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for parameter in model.parameters():
            if not self.by_rows(parameter):
                # Biases and scalars are left alone by weight decay.
                decay = settings.weight_decay if parameter.ndim >= 2 else 0.0
                groups.setdefault((decay, self._table_rate if id(parameter) in listed else 1.0), []).append(parameter)
        self._adam = torch.optim.AdamW(
            [
                {
                    "params": parameters,
                    "weight_decay": decay,
                    "times": times,
                    "lr": torch.zeros((), device=device) if self.capturable else 0.0,
                }
                for (decay, times), parameters in groups.items()
            ],
            betas=_BETAS, eps=_EPSILON, fused=True, capturable=self.capturable,
        )  # fmt: skip
        self._state: dict[str, dict[str, Tensor]] = {}
        for name, parameter in model.named_parameters():
            self._state[name] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            if not self.by_rows(parameter):
                self._adam.state[parameter] = self._state[name]

    def by_rows(self, parameter: nn.Parameter) -> bool:
        """Whether only the rows of it that a batch touched are updated."""
        return id(parameter) in self._rowwise

    def set_rate(self, rate: float) -> None:
        """The learning rate of the next step."""
        for group in self._adam.param_groups:
            if self.capturable:
                group["lr"].fill_(rate * group["times"])
            else:
                group["lr"] = rate * group["times"]
        self._row_rate = rate * self._table_rate

    @torch.no_grad()
    def clip(self, limit: float) -> None:
        """Shorten the gradient to a norm of at most `limit`."""
        gradients = [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]
        values = [(g.coalesce().values() if g.is_sparse else g) for g in gradients]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(value) for value in values]))
        for gradient in gradients:
            gradient.mul_((limit / (norm + 1e-6)).clamp(max=1))

    @torch.no_grad()
    def step(self) -> None:
        """One update."""
        self._adam.step()
        for name, parameter in self._model.named_parameters():
            if parameter.grad is not None and parameter.grad.is_sparse:
                self._step_rows(parameter, self._state[name])

    def _step_rows(self, parameter: nn.Parameter, state: dict[str, Tensor]) -> None:
        """Adam for the rows with a gradient; the moments of the others stay as they were."""
        assert parameter.grad is not None
        gradient = parameter.grad.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        state["step"] += 1
        first = state["exp_avg"][rows].lerp_(values, 1 - _BETAS[0])
        second = state["exp_avg_sq"][rows].mul_(_BETAS[1]).addcmul_(values, values, value=1 - _BETAS[1])
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = first, second
        count = float(state["step"])
        spread = (second / (1 - _BETAS[1] ** count)).sqrt_().add_(_EPSILON)
        values = parameter[rows] * (1 - self._row_rate * self._decay)
        parameter[rows] = values.addcdiv_(first, spread, value=-self._row_rate / (1 - _BETAS[0] ** count))

    def tensors(self) -> dict[str, Tensor]:
        """The state, to be saved."""
        return {f"{name}/{kind}": value for name, state in self._state.items() for kind, value in state.items()}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to a saved state, in place."""
        for name, state in self._state.items():
            for kind, value in state.items():
                value.copy_(tensors[f"{name}/{kind}"])


def add_up_rows(gradient: Tensor | None, parameter: Tensor, processes: int) -> Tensor:
    """The sum of the processes' gradients of some rows each."""
    mine = parameter.new_zeros(0, 0) if gradient is None else gradient.coalesce()
    rows = mine.indices()[0] if mine.is_sparse else torch.zeros(0, dtype=torch.int64, device=parameter.device)
    values = mine.values() if mine.is_sparse else parameter.new_zeros(0, *parameter.shape[1:])
    counts = gathered(torch.tensor([len(rows)], device=parameter.device), processes)
    most = int(max(counts))
    # What is exchanged has the same size everywhere; what is beyond a process's own rows is cut off again.
    padded = rows.new_zeros(most), values.new_zeros(most, *values.shape[1:])
    padded[0][: len(rows)], padded[1][: len(rows)] = rows, values
    parts = [
        torch.cat([part[: int(count)] for part, count in zip(gathered(own, processes), counts, strict=True)])
        for own in padded
    ]
    return torch.sparse_coo_tensor(parts[0][None], parts[1], parameter.shape, check_invariants=False)
