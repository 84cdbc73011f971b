"""Training, readable from top to bottom: draw, score, update; validate, save, stop when told to."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from flexkg.errors import ConfigError, TrainingError
from flexkg.evaluation.ranking import mean_mrr, rank_together
from flexkg.models import calibrate_modulus, interpretation, run_plan
from flexkg.training import checkpoint
from flexkg.training.batches import Batches, counts_by_update
from flexkg.training.capture import CapturedRound
from flexkg.training.listener import Progress
from flexkg.training.losses import learning_rate, training_loss
from flexkg.training.optimiser import Optimiser, add_up_rows
from flexkg.training.processes import add_up, agreed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from flexkg.config import TrainingSettings
    from flexkg.models import QueryModel
    from flexkg.sampling.queries import QuerySet

_SAVE_SECONDS = 30.0
"""Between checkpoints, unless the settings count them in steps."""
_SEED_STRIDE = 1 << 32
"""Between the dropouts' seeds of runs with neighbouring seeds: more than a run has updates."""


@dataclass
class Trainer:
    """Trains one model; everything that changes while it does is in the checkpoint."""

    model: QueryModel
    settings: TrainingSettings
    train: Sequence[QuerySet]
    valid: Sequence[QuerySet]
    folder: Path
    """Checkpoints go to `folder/checkpoints`, measurements to `folder/metrics.jsonl`."""
    device: torch.device
    share: tuple[int, int] = (0, 1)
    """(this process, number of processes)."""
    report: Callable[[Progress], None] = lambda _: None
    record: Callable[[Mapping[str, Any]], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    """Asked after every step; the run is saved before it ends."""
    fresh: Callable[[int, QuerySet], QuerySet] | None = None
    """Gives the n-th replacement of a set of training queries; None keeps the first ones."""
    best: dict[str, Any] | None = None
    seconds: float = 0.0
    step: int = field(default=0, init=False)
    """Steps done."""
    _captured: dict[int, CapturedRound] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.model.to(self.device)
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.settings.precision != "float32"
        self.by = interpretation(self.model)
        self.rounds = self._rounds()
        if min(batches.rows for batches in self.rounds) < self.model.least_batch:
            raise ConfigError(
                f"training.batch_size is too small: {self.model.name} learns from {self.model.least_batch} queries at "
                "least, in every process and update.",
                hint="Raise it.",
            )
        self.queries_per_step = sum(batches.queries_per_batch for batches in self.rounds)
        listed = self.settings.batch_size * (1 + self.settings.negatives)
        self.optimiser = Optimiser(self.model, self.settings, listed)
        self.average = _Average(self.model, self.settings.ema) if self.settings.ema else None
        self._drops = any(isinstance(part, nn.Dropout) and part.p > 0 for part in self.model.modules())
        self._refilled = 0
        self._losses = torch.zeros((), device=self.device)
        """The sum of the losses since somebody looked."""

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    def resume(self) -> bool:
        """Go back to where the newest good checkpoint stood, if there is one."""
        found = checkpoint.load_newest(self.checkpoints, self.device, self.warn)
        if found is None:
            return False
        self.model.load_state_dict(dict(found.tensors["model"]))
        self.optimiser.restore(found.tensors["optimiser"])
        if self.average is not None:
            self.average.load(found.tensors["ema"])
        self.step, self.best, self.seconds = found.step, found.state["best"], found.state["seconds"]
        return True

    def run(self) -> bool:
        """Train to the end; False if stopped before it. The last state is saved either way."""
        settings = self.settings
        validate_every = settings.validate_every or max(1, settings.steps // 10)
        log_every = max(1, min(100, settings.steps // 50))
        begin, since, last = time.perf_counter() - self.seconds, time.perf_counter(), self.step
        saved = time.perf_counter()
        self.model.train()
        if self.step == 0:
            self._calibrate()
            if self.average is not None:
                self.average.load(self.model.state_dict())
        while self.step < settings.steps and not self._enough():
            self._update()
            self.step += 1
            self.seconds = time.perf_counter() - begin
            end = self.step == settings.steps
            validates = bool(self.valid) and (end or self.step % validate_every == 0)
            if end or validates or self.step % log_every == 0:
                loss = float(self._losses) / ((self.step - last) * len(self.rounds))
                self._losses.zero_()
                self._check(loss)
                rate = (self.step - last) * self.queries_per_step / (time.perf_counter() - since)
                since, last = time.perf_counter(), self.step
                self.record({"step": self.step, "loss": loss, "queries_per_second": rate, "seconds": self.seconds})
                mrr = None if self.best is None else float(self.best["last"])
                self.report(Progress(self.step, settings.steps, loss, rate, mrr))
            if validates:
                self._validate()
                since = time.perf_counter()
                if self._enough():
                    self.warn(f"stopped early: no better validation MRR in {settings.patience} validations")
            every = settings.checkpoint_every
            if self.step % every == 0 if every else time.perf_counter() - saved > _SAVE_SECONDS:
                self.save()
                saved = time.perf_counter()
            if self._told_to_stop():
                self.save()
                return False
        self.save()
        return True

    def _enough(self) -> bool:
        """Whether validations have not become better for as long as one was willing to wait."""
        patience = self.settings.patience
        return bool(patience) and self.best is not None and self.best["without"] >= patience

    def save(self) -> None:
        """Write a checkpoint of the state as it is; one process does it for all."""
        if self.share[0] != 0:
            return
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise self._diverged("a parameter is no longer a number")
        tensors: dict[str, Mapping[str, Tensor]] = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.tensors(),
        }
        if self.average is not None:
            tensors["ema"] = self.average.weights
        checkpoint.save(self.checkpoints, self.step, tensors, {"best": self.best, "seconds": self.seconds})

    def weights(self) -> Mapping[str, Tensor]:
        """What is evaluated and asked: the average where one is kept."""
        return self.model.state_dict() if self.average is None else self.average.weights

    def _rounds(self) -> list[Batches]:
        """What draws the batch of each update of a step."""
        counted = counts_by_update([queries.shape for queries in self.train], self.settings)
        return [self._batches([queries for queries in self.train if queries.shape in part], part) for part in counted]

    def _batches(self, query_sets: Sequence[QuerySet], counts: Mapping[str, int]) -> Batches:
        settings = self.settings
        return Batches(
            query_sets,
            [counts[queries.shape] for queries in query_sets],
            self.by,
            self.model.num_entities,
            settings.negatives,
            settings.seed,
            self.device,
            self.share,
            shared_by=settings.shared_by,
            refillable=settings.online,
            weight_exponent=settings.weight_exponent,
            all_answers=settings.loss == "binary",
            near=max(round(settings.near_misses * settings.negatives), int(settings.near_misses > 0)),
        )

    @torch.no_grad()
    def _calibrate(self) -> None:
        """Let the mean distance of the first batch score 0, whichever process has which part of it."""
        if self.model.calibrated:
            return
        batches = self.rounds[0]
        batch = batches.draw(0)
        states = run_plan(self.model, batches.prepared, batch.grounding)
        owner = batches.prepared.owner
        lists = batch.negatives.repeat_interleave(len(batch.positives) // len(batch.negatives), dim=0)
        candidates = torch.cat([batch.positives, lists], dim=1)
        candidates = candidates if owner is None else candidates[owner]
        calibrate_modulus(self.model, states, candidates, self._add_up)

    def _add_up(self, value: Tensor) -> None:
        add_up(value, self.share)

    def _told_to_stop(self) -> bool:
        """Whether any process was told to: they all stop at the same step."""
        told = self.stop()
        if self.share[1] == 1:
            return told
        votes = torch.tensor(float(told), device=self.device)
        self._add_up(votes)
        return bool(votes > 0)

    def _update(self) -> None:
        """One step: an update for each round. The losses are added up on the device."""
        self.optimiser.set_rate(learning_rate(self.settings, self.step))
        self._refresh()
        for place in range(len(self.rounds)):
            at = self.step * len(self.rounds) + place
            captured = self.optimiser.capturable and self.share[1] == 1
            if captured and place not in self._captured:
                self._captured[place] = self._capture(place)
            if self._drops:
                # Which units are dropped is decided by the step, as the batch is: a resumed run drops the same.
                # Processes drop for rows of their own.
                number = at * self.share[1] + self.share[0]
                torch.manual_seed((self.settings.seed * _SEED_STRIDE + number) % (1 << 63))
            if captured:
                self._captured[place].replay()
            else:
                loss = self._backward(self._loss(place), at)
                self._share_gradients(loss)
                self._apply(loss)

    def _refresh(self) -> None:
        """Put fresh queries in place when it is time to, as the step alone says."""
        number = self.step // self.settings.refresh_every
        if self.fresh is None or number == self._refilled:
            return
        for batches in self.rounds:
            # After those that do not fit the ones before stay, also where a resumed run never had them.
            for made in range(number, self._refilled, -1):
                if batches.refill([self.fresh(made, queries) for queries in batches.query_sets]):
                    break
                self.warn(
                    f"step {self.step:,}: the fresh queries have too many answers for the room; the old ones stay"
                )
        self._refilled = number

    def _capture(self, place: int) -> CapturedRound:
        loss_of = torch.compile(self._loss(place), dynamic=False) if self.settings.compile else self._loss(place)
        at = torch.tensor(self.step * len(self.rounds) + place, device=self.device)
        with warnings.catch_warnings():
            # The compiler tells its own developers about a choice that it makes; nobody here can do anything about it.
            warnings.filterwarnings("ignore", message=r"\s*Online softmax is disabled")
            statistics = [buffer.clone() for buffer in self.model.buffers()]
            captured = CapturedRound(at, len(self.rounds), lambda at: self._backward(loss_of, at), self._apply)
        # The runs before a capture are no steps: what a model has seen in them, it has not seen.
        for buffer, before in zip(self.model.buffers(), statistics, strict=True):
            buffer.copy_(before)
        return captured

    def _backward(self, loss_of: Callable[[Tensor | int], Tensor], at: Tensor | int) -> Tensor:
        """The loss of a batch, its gradients left in the parameters."""
        self.model.zero_grad(set_to_none=True)
        loss = loss_of(at)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _apply(self, loss: Tensor) -> None:
        """Update the parameters from their gradients."""
        self._losses += loss
        if self.settings.clip:
            self.optimiser.clip(self.settings.clip)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.model)

    def _loss(self, place: int) -> Callable[[Tensor | int], Tensor]:
        batches = self.rounds[place]
        prepared = batches.prepared
        settings = self.settings
        narrow = settings.precision == "bf16" and self.device.type == "cuda"
        sharp = None
        if settings.temperatures:
            sharp = batches.by_row(
                [settings.temperatures.get(queries.shape, settings.temperature) for queries in batches.query_sets]
            )[:, None]

        def loss(at: Tensor | int) -> Tensor:
            batch = batches.draw(at)
            with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
                states = run_plan(self.model, prepared, batch.grounding)
            return training_loss(self.model, states.float(), batch, prepared, settings, sharp)

        return loss

    def _share_gradients(self, loss: Tensor) -> None:
        """Each process has its part of the batch's loss; the parts add up."""
        if self.share[1] == 1:
            return
        for parameter in self.model.parameters():
            if self.optimiser.by_rows(parameter):
                parameter.grad = add_up_rows(parameter.grad, parameter, self.share[1])
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self._add_up(parameter.grad)
        self._add_up(loss)

    @torch.no_grad()
    def _validate(self) -> None:
        own = None
        if self.average is not None:
            own = {name: value.clone() for name, value in self.model.state_dict().items()}
            self.model.load_state_dict(dict(self.average.weights))
        self.model.eval()
        ranks = rank_together(self.model, self.valid, self.by, self.device)
        results = {queries.shape: found.metrics() for queries, found in zip(self.valid, ranks, strict=True)}
        self.model.train()
        if own is not None:
            self.model.load_state_dict(own)
        # What a batch leaves in a model may differ by process.
        mrr = agreed(mean_mrr(results.values()), self.share, self.device)
        better = self.best is None or mrr > self.best["mrr"]
        if better:
            self.best = {"step": self.step, "mrr": mrr, "last": mrr, "without": 0}
            self.save()
        else:
            assert self.best is not None
            self.best = {**self.best, "last": mrr, "without": self.best["without"] + 1}
        self.record({"step": self.step, "valid_mrr": mrr, "valid": results, "seconds": self.seconds})

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self._diverged("the loss is no longer a number")

    def _diverged(self, what: str) -> TrainingError:
        good = checkpoint.steps(self.checkpoints)
        kept = f"The state of step {good[-1]:,} is kept." if good else "No state was saved before."
        return TrainingError(
            f"Training diverged at step {self.step:,}: {what}. {kept}",
            hint="In another --out, lower training.learning_rate, set training.clip=1 or training.warm_up=1000.",
        )


class _Average:
    """An exponential moving average of the weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self.weights = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, value in model.state_dict().items():
            self.weights[name].lerp_(value, 1 - self._decay)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        for name, value in weights.items():
            self.weights[name].copy_(value)
