"""Run configuration: typed settings, TOML recipes, and errors that name the setting that was meant.

A recipe is a TOML file with the sections `[model]`, `[training]` and `[data]`; `extends = "flex"` starts from another
one. An unknown key is an error.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from flexkg.errors import ConfigError
from flexkg.model_settings import MODEL_SECTIONS, FlexSettings, ModelSettings, Section, listed
from flexkg.query.shapes import DE_MORGAN_SHAPES, SHAPES, key_of, template_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flexkg.models import QueryModel
    from flexkg.query.terms import Term

EPFO_SHAPES = ("1p", "2p", "3p", "2i", "3i")
NEGATION_SHAPES = ("2in", "3in", "inp", "pin", "pni")


def template_for(shape: str) -> Term:
    """The template of a shape given by its name, such as `2i`, or by its key, such as `epep-`."""
    return (SHAPES | DE_MORGAN_SHAPES).get(shape) or template_of(shape)


def unnamed_templates(shapes: Iterable[str]) -> dict[str, Term]:
    """The templates of those shapes that are given by their keys, by key."""
    return {shape: template_for(shape) for shape in shapes if shape not in SHAPES}


def _check_shapes(shapes: Iterable[str]) -> None:
    for shape in shapes:
        try:
            template_for(shape)
        except ValueError:
            names = f"the names are {', '.join(SHAPES)}, and others go by their keys, such as epep^"
            raise ValueError(f"unknown shape {shape!r}; {names}") from None


class TrainingSettings(Section):
    """How a run is trained."""

    steps: PositiveInt = 300_000
    update: Literal["merged", "released"] = "merged"
    """`merged`: all shapes in one update; `released`: path shapes, other shapes, path shapes, an update each."""
    batch_size: PositiveInt = 512
    """Queries in an update."""
    negatives: PositiveInt = 128
    """Negative candidates for each query."""
    loss: Literal["negative-sampling", "self-adversarial", "sampled-softmax", "cross-entropy", "binary"] = (
        "negative-sampling"
    )
    """`self-adversarial` weighs negatives by their scores; `sampled-softmax` and `cross-entropy` are softmax losses,
    over the drawn candidates or over all entities; `binary` asks of every entity whether it is one of the answers."""
    temperature: PositiveFloat = 1.0
    """How sharply `self-adversarial` weighs."""
    temperatures: dict[str, NonNegativeFloat] = Field(default_factory=dict)
    """The same for single shapes; 0 weighs all negatives alike."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the target of `cross-entropy` or `binary` that is spread over all entities."""
    shapes: Annotated[tuple[str, ...], BeforeValidator(listed)] = EPFO_SHAPES + NEGATION_SHAPES
    """Names of shapes, or keys of templates."""
    shares: dict[str, PositiveFloat] = Field(default_factory=dict)
    """How often a shape comes, relative to the others; 1 unless listed."""
    weight_exponent: float = -0.5
    """A query with n answers counts (4 + n) ** this: below 0, those with many answers count less."""
    learning_rate: PositiveFloat = 1e-4
    table_rate: PositiveFloat = 1.0
    """How many times faster the tables of entities and relations learn than the networks."""
    schedule: Literal["constant", "released", "linear", "cosine"] = "released"
    """`released`: divided by 5 at half the steps, then at every 1.5 times of that step."""
    warm_up: NonNegativeInt = 0
    """Steps in which the learning rate rises from 0."""
    clip: NonNegativeFloat = 0.0
    """Largest norm of the gradient; 0 leaves it alone."""
    weight_decay: NonNegativeFloat = 0.0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Decay of the average of weights that is evaluated; 0 evaluates the weights themselves."""
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    checkpoint_every: NonNegativeInt = 0
    """Steps between checkpoints; 0 leaves it to the program."""
    validate_every: NonNegativeInt = 0
    """Steps between validations; 0 leaves it to the program."""
    shared_by: PositiveInt = 1
    """Queries that share one list of negatives; those of them that are answers are left out of the loss."""
    near_misses: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the negatives that would be answers if the query's negations were left out, where it has any."""
    fill_up: NonNegativeFloat = 0.0
    """Training queries of each shape for each one-hop query, at least: what the workload lacks is sampled."""
    online: bool = False
    """Sample fresh training queries while training, in place of the workload's."""
    refresh_every: PositiveInt = 5000
    """Steps between fresh queries."""
    rows: Literal["auto", "dense", "sparse"] = "auto"
    """`sparse` updates only the entities that a batch lists: for tables that outweigh it, as `auto` finds out."""
    precision: Literal["float32", "tf32", "bf16"] = "tf32"
    """Of matrix products on a GPU; weights and everything else are float32."""
    compile: bool = False
    """Compile the step on a GPU: slower to start, faster to run."""
    patience: NonNegativeInt = 0
    """Validations without a better MRR after which a run stops; 0 trains to the end."""

    @field_validator("shapes")
    @classmethod
    def _known(cls, shapes: tuple[str, ...]) -> tuple[str, ...]:
        _check_shapes(shapes)
        if not shapes:
            raise ValueError("at least one shape is needed")
        return shapes

    @field_validator("shares", "temperatures")
    @classmethod
    def _of_known(cls, values: dict[str, float]) -> dict[str, float]:
        """Shapes that a recipe does not train may have some: it may have them from the one that it extends."""
        _check_shapes(values)
        return values

    @model_validator(mode="after")
    def _even_runs(self) -> TrainingSettings:
        if self.batch_size % self.shared_by:
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of shared_by {self.shared_by}")
        if self.near_misses and self.shared_by > 1:
            raise ValueError("near_misses are a query's own: set near_misses=0 to let queries share theirs")
        return self

    @model_validator(mode="after")
    def _whole_table(self) -> TrainingSettings:
        """Who takes all entities as candidates updates all of them; nobody else spreads a target over them."""
        if self.loss not in ("cross-entropy", "binary"):
            if self.label_smoothing:
                raise ValueError(
                    f'loss = "{self.loss}" has no target to smooth: set label_smoothing=0, or take "cross-entropy" or '
                    '"binary"'
                )
            return self
        if self.near_misses:
            raise ValueError(f'loss = "{self.loss}" takes all entities and draws no negatives: set near_misses=0')
        if self.rows == "sparse":
            raise ValueError(f'rows = "sparse" cannot go with loss = "{self.loss}"')
        if self.rows == "auto":
            object.__setattr__(self, "rows", "dense")
        return self


class DataSettings(Section):
    """What a run learns from."""

    train_on: Literal["train", "all"] = "train"
    """`all` learns every fact, for a final model."""


_TRAINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "unite": ("|", ("2u", "up")),
    "minus": ("-", ("epep-",)),
    "xor": ("^", ("epep^",)),
    "implies": (">", ("epep>",)),
    "iff": ("=", ("epep=",)),
}
"""For each connective the sign that shows it in a shape's key, and the shapes that train it."""


class RunConfig(Section):
    """Everything that decides what a run becomes, beside its data."""

    description: str = ""
    model: ModelSettings
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    data: DataSettings = Field(default_factory=DataSettings)

    @model_validator(mode="after")
    def _trained(self) -> RunConfig:
        """A connective with a network of its own is trained: its shapes are added where no shape has it."""
        keys = "".join(key_of(template_for(shape)) for shape in self.training.shapes)
        connectives = self.model.connectives if isinstance(self.model, FlexSettings) else ()
        added = [
            shape
            for name in connectives
            if name in _TRAINS and _TRAINS[name][0] not in keys
            for shape in _TRAINS[name][1]
        ]
        if added:
            shapes = (*self.training.shapes, *added)
            object.__setattr__(self, "training", self.training.model_copy(update={"shapes": shapes}))
        return self


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("flexkg") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_recipe(recipe: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a recipe by name, or a TOML file by path, and put `section.key=value` overrides on top."""
    values = _read(recipe, ())
    for override in overrides:
        _override(values, override)
    return parse_config(values, str(recipe))


def parse_config(values: Mapping[str, Any], source: str) -> RunConfig:
    """Check plain values; an error names the setting, what is wrong with it, and the setting that was meant."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise _explain(error, values, source) from None


def build_model(settings: BaseModel, num_entities: int, num_relations: int) -> QueryModel:
    """The model that the settings describe; `num_relations` counts both directions."""
    from flexkg import models

    return models.build_model(settings.model_dump(), num_entities, num_relations)


def _read(recipe: str | Path, chain: tuple[str, ...]) -> dict[str, Any]:
    name = str(recipe)
    if name in chain:
        raise ConfigError(f"Recipes extend each other in a circle: {' -> '.join((*chain, name))}.")
    try:
        if name.endswith(".toml"):
            text = Path(recipe).read_text(encoding="utf-8")
        else:
            known = recipe_names()
            if name not in known:
                raise ConfigError(f"There is no recipe {name!r}.", hint=_hint(name, known, "recipes"))
            text = (resources.files("flexkg") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"Cannot read the recipe {name}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The recipe {name} is not valid TOML: {error}.") from None
    base = values.pop("extends", None)
    if base is None:
        return values
    path = Path(recipe).parent / base if str(base).endswith(".toml") else base
    return _merged(_read(path, (*chain, name)), values)


def _merged(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both else value
    return result


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    *sections, name = key.strip().split(".")
    if not equals or not sections or not name:
        hint = "Write it as section.key=value, for example model.dim=200."
        fields = {f"{section}.{field}" for section, field in _all_settings() if field == name}
        if equals and fields:
            hint = f"Did you mean {' or '.join(sorted(fields))}?"
        raise ConfigError(f"Cannot read the setting {override!r}.", hint=hint)
    place = values
    for section in sections:
        inner = place.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"Cannot read the setting {override!r}: {section} is no section.")
        # A copy: the recipe's own tables may be shared.
        place[section] = place = dict(inner)
    place[name] = _value(text.strip())


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _all_settings() -> set[tuple[str, str]]:
    models = {("model", field) for kind in MODEL_SECTIONS.values() for field in kind.model_fields}
    training = {("training", field) for field in TrainingSettings.model_fields}
    return models | training | {("data", field) for field in DataSettings.model_fields}


def _explain(error: ValidationError, values: Mapping[str, Any], source: str) -> ConfigError:
    problem = error.errors()[0]
    place = [str(part) for part in problem["loc"]]
    if len(place) > 1 and place[0] == "model" and place[1] in MODEL_SECTIONS:
        del place[1]  # pydantic's name for the kind of model
    setting = ".".join(place[:2])  # deeper are pydantic's names for alternatives
    where = f"(recipe {source})"
    if problem["type"] == "extra_forbidden":
        if place[0] == "model":
            kind = str(values["model"].get("name"))
            known = [f"model.{field}" for field in MODEL_SECTIONS[kind].model_fields]
            return ConfigError(f"{kind} has no setting {setting} {where}.", hint=_hint(setting, known, "settings"))
        known = [f"{section}.{field}" for section, field in sorted(_all_settings())]
        if len(place) == 1:
            known += ["model", "training", "data", "description", "extends"]
        return ConfigError(f"Unknown setting {setting} {where}.", hint=_hint(setting, known, "settings"))
    if problem["type"].startswith("union_tag"):
        name = values.get("model", {}).get("name")
        hint = _hint(str(name), list(MODEL_SECTIONS), "models")
        return ConfigError(
            f"There is no model {name!r} {where}." if name else f"model.name is missing {where}.", hint=hint
        )
    same = [
        other["msg"].removeprefix("Value error, ") for other in error.errors() if other["loc"][:2] == problem["loc"][:2]
    ]
    message = " or ".join(f"{text[:1].lower()}{text[1:]}" for text in dict.fromkeys(same))
    return ConfigError(f"{setting}: {message} {where}.")


def _hint(word: str, known: Sequence[str], what: str) -> str:
    from rapidfuzz import process

    close = [match for match, _, _ in process.extract(word, known, limit=1, score_cutoff=70)]
    return f"Did you mean {close[0]}?" if close else f"The {what} are {', '.join(known)}."
