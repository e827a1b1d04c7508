"""The error texts that no rule alone stands behind, as `gpudoctor read` explains them, for the page of all texts."""

import importlib
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gpudoctor.logs.error_texts import ERROR_TEXTS, meaning_of
from gpudoctor.rule import RuleCard
from tests.tools.site_markdown import code_block

_MOST = 10
"""Examples of one pattern."""
WHOLE = (
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
    "See inner exception for details.",
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
    "(10.0.0.1, 29500).",
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: "
    "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: device-side assert triggered",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    "RuntimeError: No CUDA GPUs are available",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled system error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    "ncclInternalError: Internal check failed.",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    "ncclUnhandledCudaError: Call to CUDA function failed.",
    "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 10 params, while rank 1 has inconsistent 12 "
    "params.",
    "RuntimeError: DataLoader worker (pid(s) 123) exited unexpectedly",
    "OSError: [Errno 24] Too many open files",
    "Segmentation fault (core dumped)",
    "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV",
    "Fatal Python error: Aborted",
    "RuntimeError: NCCL communicator was aborted on rank 1.",
    "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store "
    "by store->get('0'), but store->get('0') got error: Connection reset by peer",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers",
    "StopIteration: Caught StopIteration in replica 0 on device 0.",
    "AssertionError: Non-root FSDP instance's `_is_root` should not have been set yet or should have been set to "
    "`False`",
)
"""Texts as they are printed, since people search for a whole line: one is shown in place of what its pattern finds."""
_TITLE = """## Other texts

As `gpudoctor read` explains them: no rule, or more than one, stands behind each."""


def other_texts(cards: Iterable[RuleCard], told: Iterable[str]) -> str:
    """Each text that belongs to no single rule, with what it means and what to do; without what rules have `told`."""
    by_code = {card.code: card for card in cards}
    of_rules = "\n".join(told)
    blocks = [_TITLE]
    for known in ERROR_TEXTS:
        whole = [each for each in WHOLE if meaning_of(each) is known]
        shown = whole + [" ".join(each.split()) for each in examples_of(known.pattern)]
        shown = [each for each in shown if each in whole or each not in "\n".join((of_rules, *whole))]
        if known.code or not shown:
            continue
        links = (f"[{by_code[code].name}](rules/{by_code[code].name}.md)" for code in known.likely)
        usual = f" Usual causes: {', '.join(links)}." if known.likely else ""
        blocks.append(code_block("\n".join(shown), "text"))
        blocks.append(f"{known.means} {known.do}".strip() + usual)
    return "\n\n".join(blocks)


def examples_of(pattern: str) -> list[str]:
    """Texts that the pattern finds, one of each alternative in it, at most a handful."""
    # The parser of `re` has no public name, and another one before Python 3.11.
    parser = getattr(re, "_parser", None) or importlib.import_module("sre_parse")
    parsed = parser.parse(pattern)
    return list(itertools.islice(dict.fromkeys(_written(parsed)), _MOST))


def _written(parsed: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """All texts of a sequence, in the order of its alternatives."""
    for parts in itertools.product(*(list(_of(str(code), given)) for code, given in parsed)):
        yield "".join(parts)


def _of(code: str, given: Any) -> Iterator[str]:
    match code:
        case "LITERAL":
            yield chr(given)
        case "BRANCH":
            for alternative in given[1]:
                yield from _written(alternative)
        case "SUBPATTERN":
            yield from _written(given[-1])
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, _, repeated = given
            codes = [str(each) for each, _ in repeated]
            if codes == ["ANY"]:
                yield " … "
            elif least:
                yield from _written(list(repeated) * least)
            else:
                yield ""
        case "IN":
            yield _one_of(given)
        case "ANY" | "NOT_LITERAL":
            yield "…"
        case _:
            yield ""


def _one_of(choices: list[tuple[Any, Any]]) -> str:
    code, given = choices[0]
    match str(code), str(given):
        case "LITERAL", _:
            return chr(given)
        case "RANGE", _:
            return chr(given[0])
        case "CATEGORY", "CATEGORY_DIGIT":
            return "1"
        case "CATEGORY", "CATEGORY_WORD":
            return "x"
        case "CATEGORY", "CATEGORY_SPACE":
            return " "
    return "…"
