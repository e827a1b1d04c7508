"""Objects that become bytes, which a program may send around itself."""

from __future__ import annotations

from gpudoctor.lint.analyses.collective_signatures import note_pickled
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call


@MODELS.callable("pickle.dumps", "cloudpickle.dumps", "dill.dumps")
def _dumps(call: Call) -> Values:
    note_pickled(call, call.arg(0, "obj"))
    return NOT_ANSWERED
