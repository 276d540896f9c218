"""Typed settings of studies of code: augmentation, paraphrases, extraction, similarity, curves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from llm_variability.config_fields import (
    NO_BOOL,
    Name,
    Rates,
    Section,
    Temperatures,
    Whole,
    each_once,
    optional,
    required,
)

ORIGINAL = "original"
"""The augmentation that changes nothing."""

PARAPHRASE = "paraphrase"
"""How an augmentation by a model is called; its bands follow, as in `paraphrase-low`."""

BANDS = ("low", "medium", "high")
"""Degrees of diversity of a paraphrase."""

EXACT = ("keyboard", "synonym")
"""Methods that leave a text as it is at rate 0."""

TreeSimilarity = Literal["tsed", "tsed-published"]

MethodName = Literal["keyboard", "synonym", "nlpaug-keyboard", "nlpaug-synonym"]


class Augmentation(Section):
    """How prompts are changed by a known amount."""

    methods: Annotated[list[MethodName], AfterValidator(each_once)] = optional(
        ["keyboard", "synonym"],
        "Methods: typing errors, synonyms, and both as published (which change a text at rate 0).",
        "a list of keyboard, synonym, nlpaug-keyboard, nlpaug-synonym, each once",
    )
    rates: Rates = optional(
        [f"{tenth / 10}" if tenth else "0" for tenth in range(11)],
        "Share of the characters or words that is replaced.",
        "a list of numbers from 0 to 1, each once",
    )
    variants: Whole = Field(
        default=1,
        ge=1,
        description="Augmented texts of a task at each rate, each with a random stream of its own.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    nested: bool = optional(
        False,
        "Let the edits at a rate be among those at a higher one, which makes curves smoother; the"
        " published calls (nlpaug-*) cannot.",
        "true or false",
    )

    def names(self) -> list[str]:
        """Name each method at each rate, `keyboard-0.1` like; `original` is not among them."""
        return [f"{method}-{rate}" for method in self.methods for rate in self.rates_of(method)]

    def rates_of(self, method: str) -> list[str]:
        """List a method's rates, less the one at which it leaves a text as it is."""
        return [rate for rate in self.rates if not (rate == "0" and method in EXACT)]


class Paraphrasing(Section):
    """A model that rewords the prompts before the study."""

    model: Name = required("Model that rewords, one of `models`.", "a name among the models")
    variants: Whole = Field(
        default=3,
        ge=1,
        description="Paraphrases asked for, of a task, a degree of diversity and a temperature.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    temperatures: Temperatures = optional(
        ["0.5", "1.0"],
        "Temperatures at which it rewords.",
        "a list of numbers from 0 to 2, each once",
    )
    max_new_tokens: Whole = Field(
        default=1024,
        ge=1,
        description="Longest paraphrase in tokens.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    least_similarity: Annotated[float, Field(ge=-1, le=1), NO_BOOL] | None = Field(
        default=None,
        description="Cosine to the original, by the primary encoder, below which a paraphrase is"
        " flagged as dissimilar.",
        json_schema_extra={"allowed": "a number from -1 to 1"},
    )
    leave_out: Annotated[
        list[Literal["untagged", "unclosed", "lost", "added", "code", "length", "dissimilar"],],
        AfterValidator(each_once),
    ] = optional(
        ["unclosed", "code"],
        "Flags with which a paraphrase is not used, but counted. An empty one and one that is the"
        " original never are.",
        "a list of untagged, unclosed, lost, added, code, length, dissimilar, each once",
    )
    bertscore: Name | None = optional(
        None,
        "Encoder whose contextual embeddings give a BERTScore beside the cosine.",
        "a name among the encoders",
    )


class Frame(Section):
    """Words around every prompt of a study; they are neither augmented nor measured."""

    prefix: str = optional(
        "", "Stands before every prompt, with an empty line between.", "any text"
    )
    postfix: str = optional(
        "", "Stands after every prompt, with an empty line between.", "any text"
    )

    def wrap(self, text: str) -> str:
        """Write the whole prompt; `text` stands in it as it is, empty words leave no trace."""
        return "\n\n".join(part for part in (self.prefix, text, self.postfix) if part)


class Extraction(Section):
    """How a program is taken out of a reply."""

    choice: Literal["longest", "first", "last", "joined"] = optional(
        "longest", "Which of several fenced blocks is taken.", "longest, first, last, joined"
    )
    strip_comments: bool = optional(False, "Compare programs without comments.", "true or false")
    strip_docstrings: bool = optional(
        False, "Compare programs without docstrings.", "true or false"
    )


class WordNetSource(Section):
    """Where WordNet comes from."""

    source: str = optional(
        "package",
        "Where it is taken from: an installed package, Debian's packages, NLTK's download, or a"
        " folder.",
        "package, debian, nltk, or an existing folder",
    )
    checksum: str | None = optional(
        None, "SHA-256 that its content must have.", "64 hexadecimal digits"
    )


class EditCosts(Section):
    """What an edit of a tree costs."""

    delete: Annotated[float, Field(ge=0), NO_BOOL] = Field(
        default=1.0,
        description="Deleting a node.",
        json_schema_extra={"allowed": "a number of at least 0"},
    )
    insert: Annotated[float, Field(ge=0), NO_BOOL] = Field(
        default=1.0,
        description="Inserting a node.",
        json_schema_extra={"allowed": "a number of at least 0"},
    )
    rename: Annotated[float, Field(ge=0), NO_BOOL] = Field(
        default=1.0,
        description="Renaming a node.",
        json_schema_extra={"allowed": "a number of at least 0"},
    )


class ProgramSimilarity(Section):
    """How alike two programs are."""

    variants: Annotated[list[TreeSimilarity], Field(min_length=1), AfterValidator(each_once)] = (
        optional(
            ["tsed", "tsed-published"],
            "Tree similarities; the first is the primary one. `tsed-published` has the labels,"
            " costs and direction of the published code.",
            "a list of tsed, tsed-published, each once",
        )
    )
    costs: EditCosts | None = optional(
        None, "Costs of edits for `tsed` (default: 1 each).", "a mapping"
    )
    max_nodes: Whole = Field(
        default=5000,
        ge=1,
        description="Largest tree that is compared. A program with a larger one is left out of the"
        " tree similarities and counted.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    floor_tasks: Whole = Field(
        default=20,
        ge=1,
        description="Unrelated tasks of its set that each task is compared with for the floor.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )


class Curves(Section):
    """Curves over the rate of augmentation, and their summaries."""

    resamples: Whole = Field(
        default=2000,
        ge=200,
        description="Bootstrap samples of tasks that intervals come from.",
        json_schema_extra={"allowed": "a whole number of at least 200"},
    )
