"""Nominal and realised rates of every augmentation, over the tasks of one or more sets.

    python benchmarks/augmentation_rates.py [--wordnet FOLDER] [--sets fresh open] [--variants 5]

--wordnet: NLTK data folder made by `python -m llm_variability.augmentation wordnet`; without it
only typing errors are made. The published synonym call wants a tagger that NLTK downloads; where
it is missing, a stand-in gives each word the part of speech it most often is in WordNet, and a few
determiners their own. Prints a table a set, in Markdown: the mean over texts and variants of the
realised rate at each nominal rate, the share of texts that are not the original at rate 0, and
milliseconds a text.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from llm_variability.augmentation.edits import Augmented, stream_seed
from llm_variability.augmentation.keyboard import augment_keyboard
from llm_variability.augmentation.lexicon import WordNet
from llm_variability.augmentation.published import published_keyboard, published_synonyms
from llm_variability.augmentation.synonym import augment_synonyms
from llm_variability.augmentation.wordnet import find_wordnet
from llm_variability.stimuli.tasks import read_task_set

TASKS = Path(__file__).parents[1] / "resources/tasks"
RATES = (0.0, 0.1, 0.3, 0.5, 1.0)
_DETERMINERS = frozenset(["a", "an", "the", "this", "that", "these", "those", "each", "every"])
_TAGS = {"n": "NN", "v": "VB", "a": "JJ", "r": "RB"}


def make_stand_in(wordnet: WordNet) -> Callable[[Sequence[str]], list[tuple[str, str]]]:
    """Make a tagger that needs no download: most frequent part of speech, determiners, or FW."""

    def tag(word: str) -> str:
        if word.lower() in _DETERMINERS:
            return "DT"
        found = wordnet.synonyms(word.lower())
        return _TAGS[max(found, key=lambda part: found[part][0])] if found else "FW"

    return lambda words: [(word, tag(word)) for word in words]


def has_tagger() -> bool:
    import nltk

    try:
        nltk.data.find("taggers/averaged_perceptron_tagger_eng")
    except LookupError:
        return False
    return True


def measure(
    method: str,
    augment: Callable[[str, float, int], Augmented],
    texts: dict[str, str],
    variants: int,
) -> str:
    rates, changed = [], []
    started = time.perf_counter()
    for rate in RATES:
        results = [
            (text, augment(text, rate, stream_seed(0, name, method, rate, variant)))
            for name, text in texts.items()
            for variant in range(variants)
        ]
        rates.append(fmean(each.realised for _, each in results))
        changed.append(fmean(text != each.text for text, each in results))
    seconds = (time.perf_counter() - started) / (len(RATES) * len(texts) * variants)
    shown = " | ".join(f"{rate:.3f}" for rate in rates)
    return f"| `{method}` | {shown} | {changed[0]:.0%} | {1000 * seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--sets", nargs="+", default=["humaneval", "fresh", "open"])
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--limit", type=int, help="tasks of each set, the first ones")
    arguments = parser.parse_args()
    methods: dict[str, Callable[[str, float, int], Augmented]] = {
        "keyboard": augment_keyboard,
        "nlpaug-keyboard": published_keyboard,
    }
    tagged = ""
    if arguments.wordnet is not None:
        wordnet = WordNet(find_wordnet(arguments.wordnet))
        tagger = None if has_tagger() else make_stand_in(wordnet)
        tagged = f" Tagger: {'the stand-in' if tagger else 'of NLTK'}."
        methods["synonym"] = partial(augment_synonyms, wordnet=wordnet)
        methods["nlpaug-synonym"] = partial(
            published_synonyms, nltk_data=arguments.wordnet, tagger=tagger
        )
    for name in arguments.sets:
        tasks = read_task_set(TASKS, name)[: arguments.limit]
        texts = {task.id: task.text for task in tasks}
        print(f"\n{name}: {len(texts)} texts, {arguments.variants} variants each.{tagged}\n")
        nominal = " | ".join(f"{rate:g}" for rate in RATES)
        print(f"| method | {nominal} | not the original at 0 | ms a text |")
        print("|---" + "|---:" * (len(RATES) + 2) + "|")
        for method, augment in methods.items():
            print(measure(method, augment, texts, arguments.variants), flush=True)


if __name__ == "__main__":
    main()
