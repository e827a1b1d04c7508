"""The table of libraries, and that no other place has a list of its own."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from gpudoctor.lint.library.library_names import canonical, computes, gives_settings, is_harmless, shows
from gpudoctor.manifest import compiled, framework_roles
from gpudoctor.manifest.libraries import LIBRARIES, LibraryEntry
from tests.support.sources import Source, sources

KNOWN = {root for each in LIBRARIES for root in each.roots.split()} - sys.stdlib_module_names - {"torch"}


def test_each_library_has_one_record():
    often = Counter(root for each in LIBRARIES for root in each.roots.split())
    assert not {root for root, times in often.items() if times > 1}


def test_records_say_only_what_the_table_knows():
    told = {name for each in LIBRARIES for name in vars(each)}
    assert told <= {name for base in LibraryEntry.__mro__ for name in vars(base).get("__annotations__", ())}


def test_a_name_is_the_installed_library_or_perhaps_the_project_s():
    assert not [each.roots for each in LIBRARIES if each.wins and each.shadowed]


def test_what_takes_charge_lies_in_its_library():
    for each in LIBRARIES:
        assert not [name for name in each.frameworks if not name.startswith(f"{each.roots}.")]
    named = {*compiled.taking_charge().values(), *compiled.belonging().values()}
    assert named == {each.name for each in framework_roles._frameworks()}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("pytorch_lightning.Trainer", "lightning.pytorch.Trainer"),
        ("torch.distributed.distributed_c10d.all_reduce", "torch.distributed.all_reduce"),
        ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler"),
        ("torch.distributed.all_reduce", "torch.distributed.all_reduce"),
        ("horovod.tensorflow.keras.rank", "horovod.torch.rank"),
        ("horovod.mxnet.allreduce", "horovod.torch.allreduce"),
        ("horovod.tensorflow.init", "horovod.tensorflow.init"),
    ],
)
def test_a_thing_has_one_name(name: str, known: str):
    assert canonical(name) == known


def test_parts_of_a_library_may_differ_from_the_whole():
    assert is_harmless("timm.data.create_dataset")
    assert not is_harmless("timm.create_model")
    assert is_harmless("numpy.array")
    assert computes("torchmetrics.functional.accuracy")
    assert not computes("torchmetrics.Accuracy")
    assert shows("torch.utils.tensorboard.SummaryWriter")
    assert not shows("torch.cat")
    assert gives_settings("json.load")
    assert not gives_settings("json.dumps")


ARE_NONE = (
    "gpudoctor.run.instruments.loggers", "gpudoctor.lint.library.register", "gpudoctor.lint.launchfiles.launchers",
    "gpudoctor.lint.source.needed_versions",
)  # fmt: skip
"""The calls of loggers that a run listens to, our own files, some of which are named after libraries, commands, and
what stands in requirements."""


def test_no_other_place_lists_libraries():
    """Three libraries in one display are a list of libraries; dotted names of what they offer are models."""
    found = [f"{source.name}:{node.lineno}" for source in sources().values() for node in _lists_of(source)]
    assert not [place for place in found if not place.startswith(ARE_NONE)]


def _lists_of(source: Source) -> Iterator[ast.expr]:
    # Which frameworks leave something to the program, a rule decides by its own offence.
    if source.name.startswith(("gpudoctor.manifest", "gpudoctor_rules")):
        return
    if len(KNOWN.intersection(re.findall(r"[\w.]*\w", source.text))) < 3:
        return
    for node in source.nodes:
        texts: list[ast.expr | None] = []
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            texts = [*node.elts]
        elif isinstance(node, ast.Dict):
            texts = node.keys
        names = {str(each.value) for each in texts if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        if len({name.removesuffix(".") for name in names} & KNOWN) > 2:
            yield node
