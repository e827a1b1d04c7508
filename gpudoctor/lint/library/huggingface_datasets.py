"""The data sets of Hugging Face's `datasets`, which draw from the numbers of NumPy where they are given no seed."""

from __future__ import annotations

from gpudoctor.lint.domain.provenance import is_table
from gpudoctor.lint.domain.symbols import Loaded
from gpudoctor.lint.domain.value import FALSE, NONE, TRUE, Unknown, Values, divergence_of
from gpudoctor.lint.events.data_loading import Split, StreamLoaded
from gpudoctor.lint.events.event_context import agreement_on
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call

_SEED_OF = {"shuffle": 0, "train_test_split": 4}
"""Where the seed stands."""


@MODELS.callable("datasets.load_dataset", "datasets.load_from_disk")
def _load(call: Call) -> Values:
    """A table; or a stream, which is shuffled in a buffer."""
    streaming = call.keywords.get("streaming")
    table = streaming is None or streaming.single == FALSE
    loaded = Loaded(call.name, tuple(call.arguments), table)
    # `split=f"train[{rank}%:...]"`: a share of the rank.
    apart = divergence_of(call.all_values())
    found = call.unknown(loaded, f"what {call.name} returns", apart, escaped_from=call.name)
    if streaming is not None and streaming.single == TRUE:
        _note_streams(call, found)
    return found


def _note_streams(call: Call, found: Values) -> None:
    for each in found:
        if isinstance(each, Unknown):
            call.emit(StreamLoaded, stream=each)


@MODELS.method(Unknown, "to_iterable_dataset")
def _to_stream(call: Call[Unknown]) -> Values:
    if not is_table(call.receiver):
        return NOT_ANSWERED
    stream = Loaded(call.name, (call.receiver, *call.arguments), False)
    found = call.unknown(stream, "a stream of samples", escaped_from=f"datasets.{call.name}")
    _note_streams(call, found)
    return found


@MODELS.method(Unknown, "shuffle", "train_test_split")
def _draw(call: Call[Unknown]) -> Values:
    """Without a seed each process has an order of its own."""
    if not is_table(call.receiver) or call.open_ended:
        return NOT_ANSWERED
    ordered = call.keywords.get("shuffle")
    if ordered is not None and ordered.single == FALSE:
        return NOT_ANSWERED
    seed = call.arg(_SEED_OF[call.name], "seed")
    given = (seed, *(call.keywords.get(name) for name in ("seeds", "generator", "generators")))
    drawn = next((each for each in given if each is not None and each.single != NONE), None)
    call.emit(
        Split, call=call.name, own_generator=drawn is not None, seed=agreement_on(drawn), by_numpy=True,
        keeps_all=call.name == "shuffle",
    )  # fmt: skip
    return NOT_ANSWERED
