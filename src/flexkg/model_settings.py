"""The settings of each model: the section `[model]` of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)


class Section(BaseModel):
    """Settings that belong together; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Model(Section):
    """What every model can be told."""

    union: Literal["native", "dnf", "demorgan"] = "dnf"
    disjunction: Literal["max", "probability-or"] = "max"


Modulus = PositiveFloat | Literal["range/2", "calibrated"]
"""Where the modulus starts; `calibrated` lets the mean distance of the first batch score 0."""


class GQESettings(Model):
    """GQE."""

    name: Literal["gqe"] = "gqe"
    dim: PositiveInt = 800
    margin: PositiveFloat = 24.0


class Query2boxSettings(Model):
    """Query2box."""

    name: Literal["query2box"] = "query2box"
    dim: PositiveInt = 400
    margin: PositiveFloat = 24.0
    inside_weight: NonNegativeFloat = 0.02


class BetaESettings(Model):
    """BetaE."""

    name: Literal["betae"] = "betae"
    dim: PositiveInt = 400
    hidden: PositiveInt = 1600
    margin: PositiveFloat = 60.0


class ConESettings(Model):
    """ConE."""

    name: Literal["cone"] = "cone"
    dim: PositiveInt = 800
    hidden: PositiveInt = 1600
    margin: PositiveFloat = 30.0
    inside_weight: NonNegativeFloat = 0.02
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    modulus: Modulus = "range/2"


def none(value: object) -> object:
    """None for the word."""
    # TOML has no null.
    return None if value == "none" else value


def listed(value: object) -> object:
    """The parts of a text, or the list that it is already."""
    # On the command line a list is most easily written with commas.
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Connective = Literal["intersect", "unite", "minus", "xor", "implies", "iff"]


class FlexSettings(Model):
    """FLEX; the defaults are the released code's."""

    name: Literal["flex"] = "flex"
    dim: PositiveInt = 800
    hidden: PositiveInt = 1600
    attention_hidden: Annotated[PositiveInt | None, BeforeValidator(none)] = None
    margin: PositiveFloat = 30.0
    features: PositiveInt = 1
    boundary: Annotated[PositiveFloat | None, BeforeValidator(none)] = 1.0
    logic: bool = True
    residual: bool = False
    system: Literal["product", "godel", "lukasiewicz"] = "product"
    connectives: Annotated[tuple[Connective, ...], BeforeValidator(listed)] = ("intersect",)
    connective_features: Literal["attention", "logic"] = "attention"
    negation: Literal["shift", "mlp"] = "shift"
    distance: Literal["boundary", "paper"] = "boundary"
    inside_weight: NonNegativeFloat = 0.02
    feature_sign: Literal[-1, 1] = -1
    logic_scale: PositiveFloat = 2.0
    relation_logic: Literal["feature", "logic"] = "feature"
    modulus: Modulus = "range/2"
    train_modulus: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> FlexSettings:
        if self.union == "native" and "unite" not in self.connectives:
            object.__setattr__(self, "connectives", (*self.connectives, "unite"))
        if self.connective_features == "logic" and self.boundary is None:
            raise ValueError('connective_features = "logic" needs a boundary')
        return self


class _Reciprocal(Model):
    """Link predictors that multiply; they are trained against all entities."""

    dim: PositiveInt = 1000
    regularisation: NonNegativeFloat = 0.05
    """Weight of the cubes of all numbers that a batch touches, for each query (N3)."""


class TransESettings(Model):
    """TransE."""

    name: Literal["transe"] = "transe"
    dim: PositiveInt = 1000
    margin: PositiveFloat = 9.0
    norm: Literal[1, 2] = 1


class DistMultSettings(_Reciprocal):
    """DistMult."""

    name: Literal["distmult"] = "distmult"


class ComplExSettings(_Reciprocal):
    """ComplEx; a dimension is a complex number."""

    name: Literal["complex"] = "complex"


class RotatESettings(Model):
    """RotatE; a dimension is a complex number."""

    name: Literal["rotate"] = "rotate"
    dim: PositiveInt = 1000
    margin: PositiveFloat = 9.0


class TuckERSettings(Model):
    """TuckER."""

    name: Literal["tucker"] = "tucker"
    dim: PositiveInt = 200
    relation_dim: PositiveInt = 200
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    core_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.4
    output_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5


LinkPredictorSettings = TransESettings | DistMultSettings | ComplExSettings | RotatESettings | TuckERSettings
ModelSettings = Annotated[
    GQESettings | Query2boxSettings | BetaESettings | ConESettings | FlexSettings | LinkPredictorSettings,
    Field(discriminator="name"),
]
MODEL_SECTIONS: dict[str, type[Model]] = {
    kind.model_fields["name"].default: kind for kind in get_args(get_args(ModelSettings)[0])
}
"""The section of each model by the model's name."""
