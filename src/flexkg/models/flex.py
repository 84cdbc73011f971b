"""FLEX: an answer set is a feature part and a logic part; every variant of the paper is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from flexkg.errors import ConfigError
from flexkg.logic.fuzzy import SYSTEMS
from flexkg.models.base import QueryModel, Target
from flexkg.models.layers import MLP, OperandAttention, OrderedAttention, Table, scaled_tanh
from flexkg.models.reference import DistanceSpec
from flexkg.plan.algebra import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

    from flexkg.models.base import State, States

CONNECTIVES = (
    Operator.INTERSECT,
    Operator.UNITE,
    Operator.MINUS,
    Operator.XOR,
    Operator.IMPLIES,
    Operator.IFF,
)
_ORDERED = {Operator.MINUS, Operator.IMPLIES}


class Flex(QueryModel):
    """State [f1 ; ... ; fk ; l]: k feature parts in [-L, L] and one logic part in [0, 1], each d wide.

    Lin et al., FLEX: Feature-Logic Embedding Framework for CompleX Knowledge Graph Reasoning (2022).
    """

    name = "flex"
    available = QueryModel.available | {Operator.NEGATE} | set(CONNECTIVES)

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int = 800,
        hidden: int = 1600,
        attention_hidden: int | None = None,
        margin: float = 30.0,
        features: int = 1,
        boundary: float | None = 1.0,
        logic: bool = True,
        residual: bool = False,
        system: str = "product",
        connectives: Sequence[str] = ("intersect",),
        connective_features: str = "attention",
        negation: str = "shift",
        distance: str = "boundary",
        inside_weight: float = 0.02,
        feature_sign: int = -1,
        logic_scale: float = 2.0,
        relation_logic: str = "feature",
        modulus: float | str = "range/2",
        train_modulus: bool = True,
        dropout: float = 0.0,
        union: str = "dnf",
        disjunction: str = "max",
    ) -> None:
        """Every setting is described in the reference of models; the defaults are the released code's."""
        super().__init__(num_entities, num_relations, dim=dim, margin=margin, union=union, disjunction=disjunction)
        asked = {Operator(name) for name in connectives} | {Operator.INTERSECT}
        if self.union == "native":
            asked.add(Operator.UNITE)
        self.connectives = tuple(connective for connective in CONNECTIVES if connective in asked)
        if connective_features == "logic" and boundary is None:
            raise ConfigError(
                "Logic over features needs a boundary: features are read as truth values between -L and L."
            )
        self.features = features
        self.boundary = boundary
        self.logic = logic
        self.residual = residual
        self.system = SYSTEMS[system]
        self.connective_features = connective_features
        self.negation = negation
        self.distance_kind = distance if logic else "paper"
        self.inside_weight = inside_weight
        self.feature_sign = feature_sign
        self.logic_scale = logic_scale
        self.relation_logic = relation_logic
        parts = features + logic
        width, self.feature_width = attention_hidden or dim, features * dim
        self.entities = Table(num_entities, features * dim, -self.range, self.range)
        self.relation_features = Table(num_relations, features * dim, -self.range, self.range)
        if logic:
            self.relation_logics = Table(num_relations, dim, -self.range, self.range)
        self.projection = MLP(parts * dim, hidden, hidden, parts * dim, dropout=dropout)
        self.attention = nn.ModuleDict()
        if connective_features == "attention":
            for connective in self.connectives:
                kind = OrderedAttention if connective in _ORDERED else OperandAttention
                self.attention[connective] = nn.ModuleList(kind((1 + logic) * dim, width, dim) for _ in range(features))
        if negation == "mlp" and connective_features == "attention":
            self.complement = nn.ModuleList(MLP((1 + logic) * dim, width, dim) for _ in range(features))
        start = self.first_modulus(modulus)
        if train_modulus:
            self.modulus = nn.Parameter(start)
        else:
            del self.modulus
            self.register_buffer("modulus", start)

    @property
    def operators(self) -> frozenset[Operator]:
        """Projection, negation and the connectives that were asked for."""
        return QueryModel.available | {Operator.NEGATE} | set(self.connectives)

    def split(
        self, state: Float[Tensor, "... state"]
    ) -> tuple[Float[Tensor, "... features"], Float[Tensor, "... logic"]]:
        """Feature parts side by side, and the logic part (of width 0 where the model has none)."""
        return state[..., : self.feature_width], state[..., self.feature_width :]

    def squash(self, values: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Into [-L, L]; without a boundary, as it is."""
        if self.boundary is None:
            return values
        return self.feature_sign * self.boundary * torch.tanh(values)

    def truth(self, values: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Into [0, 1]."""
        return torch.sigmoid(self.logic_scale * values)

    def entity(self, ids: Int[Tensor, " rows"]) -> State:
        """A set of one entity is certain: its logic part is 0."""
        feature = self.candidates(ids)
        return torch.cat([feature, feature.new_zeros(len(feature), self.dim * self.logic)], dim=-1)

    def project(self, state: State, relations: Int[Tensor, " rows"]) -> State:
        """g(MLP([f + r_f ; l + r_l])), g = tanh on features and sigmoid on logic.

        Residual: f + r_f is added to what comes out for features, so that an untrained network is a translation.
        """
        step = self.squash(self.relation_features(relations) / self.range)
        if self.logic:
            raw = self.relation_logics(relations) / self.range
            step = torch.cat([step, self.squash(raw) if self.relation_logic == "feature" else self.truth(raw)], dim=-1)
        moved = state + step
        feature, logic = self.split(self.projection(moved))
        if self.residual:
            # Where tanh turns the interval over, this is turned before it, and comes out as it went in.
            way = 1.0 if self.boundary is None else self.feature_sign / self.boundary
            feature = feature + way * self.split(moved)[0]
        return torch.cat([self.squash(feature), self.truth(logic)], dim=-1)

    def negate(self, state: State) -> State:
        """NOT on the logic part; on features a network, or half a turn of the interval."""
        feature, logic = self.split(state)
        if self.connective_features == "logic":
            turned = -feature
        elif self.negation == "shift":
            step = 1.0 if self.boundary is None else self.boundary
            turned = torch.where(feature >= 0, feature - step, feature + step)
        else:
            inputs = (torch.cat([part, logic], dim=-1) for part in feature.chunk(self.features, dim=-1))
            turned = torch.cat(
                [network(values) for network, values in zip(self.complement, inputs, strict=True)], dim=-1
            )
            turned = turned if self.boundary is None else self.boundary * torch.tanh(turned)
        return torch.cat([turned, 1 - logic], dim=-1)

    def intersect(self, states: States) -> State:
        """AND."""
        return self._connect(Operator.INTERSECT, states)

    def unite(self, states: States) -> State:
        """OR."""
        return self._connect(Operator.UNITE, states)

    def minus(self, left: State, right: State) -> State:
        """AND NOT."""
        return self._connect(Operator.MINUS, (left, right))

    def xor(self, left: State, right: State) -> State:
        """XOR."""
        return self._connect(Operator.XOR, (left, right))

    def implies(self, left: State, right: State) -> State:
        """IMPL."""
        return self._connect(Operator.IMPLIES, (left, right))

    def iff(self, left: State, right: State) -> State:
        """IFF."""
        return self._connect(Operator.IFF, (left, right))

    def _connect(self, connective: Operator, states: States) -> State:
        """Features attended to by the connective's own network; truth values by vector logic, without parameters."""
        if connective not in self.connectives:
            raise self._lacks(f"{connective} natively: this run has no network for it")
        feature, logic = self.split(self.stacked(states))
        if self.connective_features == "logic":
            assert self.boundary is not None
            truth = self._fuzzy(connective, (feature / self.boundary + 1) / 2)
            combined = (2 * truth - 1) * self.boundary
        else:
            networks = self.attention[connective]
            assert isinstance(networks, nn.ModuleList)
            parts = feature.chunk(self.features, dim=-1)
            combined = torch.cat(
                [
                    (network(torch.cat([part, logic], dim=-1)) * part).sum(dim=1)
                    for network, part in zip(networks, parts, strict=True)
                ],
                dim=-1,
            )
        return torch.cat([combined, self._fuzzy(connective, logic)], dim=-1)

    def _fuzzy(self, connective: Operator, values: Float[Tensor, "rows arity width"]) -> Float[Tensor, "rows width"]:
        match connective:
            case Operator.INTERSECT:
                return self.system.conjunction(values, 1)
            case Operator.UNITE:
                return self.system.disjunction(values, 1)
            case Operator.MINUS:
                return self.system.minus(*values.unbind(1))
            case Operator.XOR:
                return self.system.xor(*values.unbind(1))
            case Operator.IMPLIES:
                return self.system.implies(*values.unbind(1))
            case _:
                return self.system.iff(*values.unbind(1))

    @property
    def distance_spec(self) -> DistanceSpec:
        """`paper`: L1 to the features; `boundary`: way to the interval that the logic part spans around them."""
        return DistanceSpec("l1") if self.distance_kind == "paper" else DistanceSpec("box", self.inside_weight)

    def target(self, state: State) -> Target:
        """The distances of all feature parts add up, and each counts the logic part."""
        feature, logic = self.split(state)
        if self.distance_kind == "boundary":
            return Target((feature, logic.repeat(1, self.features)))
        return Target((feature,), self.features * logic.sum(dim=-1) if self.logic else None)

    def candidates(self, rows: Int[Tensor, "..."] | slice) -> Float[Tensor, "... width"]:
        """Features of entities; their logic part is 0."""
        values: Tensor = self.entities(rows)
        if self.boundary is None:
            return values / self.range
        return scaled_tanh(values, 1 / self.range, self.feature_sign * self.boundary)
