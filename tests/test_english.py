"""The register of the field: what users read uses its words, and none that read as a translation comes back."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from tests.support.sources import ROOT, sources

# What not to write, as a pattern of words, and what to write instead.
TERMS = {
    r"without end|for ever\b": "forever",
    r"(?:others?|partners?|ranks?),? who never comes?": "the other ranks never call it",
    r"(?:job|it|and|norm) stands? still": "hangs",
    r"(?:some|all) of the ways through": "on some code paths",
    r"on paper": "symbolically",
    r"on account of": "because of",
    r"once more": "again",
    r"with (?:another|its own) number": "a different value, its own value",
    r"(?:each|same|next|whole|more|extra|which|every) rounds? of|each round\b|leave the round out": "iteration",
    r"[Dd]eals? it out\b": "shard",
    r"in the reentrant way": "by reentrant checkpointing",
    r"(?:has|have) one order\b": "the same order",
    r"over one another's": "each other's",
    r"where nobody comes": "where no other node connects",
    r"(?:its|own|a|that|one|first) share of the (?:data|parameters|validation|samples)|own share\b": "shard",
    r"shares? (?:it|that|the data|the samples|the stream) out|deals? out|dealt out": "shards, distributes, divides",
    r"tak(?:es?|en) stock": "inventory, registered",
    r"the very (?:order|same|parameters)": "the same, exactly the",
    r"32 bit numbers": "FP32",
    r"in the middle, ": "median",
    r"one beside the other": "stacked",
    r"pieces? of advice": "suggestion",
    r"in vain": "has no effect, forever",
    r"is of no number|is no whole number of": "is not a number",
    r"goes on with what was handed in|go on with (?:it|what)": "continue with",
    r"hands? over copies|it is handed over to be": "returns copies, is passed to",
    r"say nothing of each other|says nothing of speed": "cannot be compared; not how fast",
    r"Give it `num_workers": "Set `num_workers",
    r"rank 0 alone goes on": "only rank 0 continues",
    r"of which nothing is heard": "that no longer answers",
    r"Taken charge of by": "Managed by",
    r"(?:goes|gone|went|go) backward": "is backpropagated",
    r"[Hh]and(?:s|ed)? (?:it|them|the option|their model|the others) over|[Hh]and over": "pass",
    r"sen(?:t|ds?) (?:it |them )?around": "reduces, broadcasts, exchanges",
    r"comes? by\b": "reaches, passes",
    r"belongs? into": "belongs in",
    r"cuts? (?:the )?gradients|gradients (?:are|were) (?:never )?cut\b": "clips, shards",
    r"[Ss]ettings stand in|lies in `~": "are read from, is in",
    r"[Nn]one by itself|[Nn]one is (?:applied|offered)": "No automatic fix",
    r"(?:is|was|are) asked of (?:its|the|a) (?:wrapper|model|sharded)": "is read from, is called on",
    r"(?<!there )(?:is|are|was) no (?:JSON|program|port|baseline|tensor|file|output)\b": "is not a",
    r"(?<!there )(?:is|are|was) no (?:directive|notebook|number|rule of)\b": "is not a",
    r"(?:go(?:es)?|went) past\b|gone around": "bypasses",
    r"at the begin of": "at the beginning of",
    r"thaw(?:s|ed)?\b|made to learn again": "unfreeze",
    r"keeps? in step": "in sync, out of sync",
    r"[Tt]ake (?:it|them|the line|`[^`]*`) out\b": "Remove",
    r"as many times too (?:large|small)": "too large by a factor of",
    r"on some ways?\b|goes the same way": "on some paths, takes the same path",
    r"slow way round|slower ways": "slower paths",
    r"mend(?:s|ed|ing)?\b": "fix, correct",
    r"parted by": "separated by",
    r"to and fro": "back and forth",
    r"falls? apart": "differ between ranks",
    r"comes here\b|come here\b": "gets here, runs this",
    r"gone through here|part here\b": "iterated over, diverge",
    r"[Ss]hares? the pass out|shared the data out|shared out": "shards",
    r"is told as\b|and told only": "is reported as",
    r"be it (?:None|over)": "if only, even where",
}


@pytest.mark.parametrize("words", TERMS)
def test_what_users_read_is_in_the_words_of_the_field(words: str) -> None:
    pattern = re.compile(rf"\b(?:{words})")
    found = [
        f"{place}: …{text[max(0, match.start() - 40) : match.end() + 20]}… ({TERMS[words]})"
        for place, text in _read_by_users()
        for match in pattern.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_texts_are_found() -> None:
    texts = dict(_read_by_users())
    assert any("deadlock" in text for text in texts.values())
    assert any("Show the page of a rule" in text for text in texts.values())
    assert any("Does it really use all four" in text for text in texts.values())


@cache
def _read_by_users() -> tuple[tuple[str, str], ...]:
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    """Texts in one line each, with where they stand: pages of rules, messages, help, and the documentation."""
    for source in sources().values():
        if "/stubs/" not in source.shown:
            yield from (
                (f"{source.shown}:{line}", " ".join(text.split())) for line, text in _strings(source.nodes, source.name)
            )
    pages = (*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("gpudoctor/guides/*.md")))
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages):
        yield file.relative_to(ROOT).as_posix(), " ".join(file.read_text(encoding="utf-8").split())


def _strings(nodes: Sequence[ast.AST], module: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, unless they are a page or a command's help."""
    docstrings = set()
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            page = isinstance(node, ast.Module) and module.startswith("gpudoctor_rules.") and statement is body[0]
            page = page and not module.rpartition(".")[2].startswith("_")
            command = isinstance(node, ast.ClassDef) and module.startswith("gpudoctor.cli.") and statement is body[0]
            if not (page or command):
                docstrings.add(id(statement.value))
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
