"""One zygote for all proofs of a session, and the verdicts of those that were collected."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.support.installs import require_torch

from .harness import AT_ONCE, Proof, Prover, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def prover() -> Iterator[Prover]:
    """The process that ranks are forked from."""
    require_torch()
    if not sys.platform.startswith("linux"):
        pytest.skip("ranks are forked and watched through /proc, so proofs need Linux")
    with Prover() as started:
        yield started


@pytest.fixture(scope="session")
def verdict_of(prover: Prover, request: pytest.FixtureRequest) -> Iterator[Callable[[Proof], Verdict]]:
    """Runs every proof that a file of tests will ask for, several at a time, from its first question on."""
    files: dict[Proof, Path] = {}
    for item in request.session.items:
        proof = item.callspec.params.get("proof") if hasattr(item, "callspec") else None
        if isinstance(proof, Proof) and not proof.missing:
            files.setdefault(proof, item.path)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: dict[Proof, Future[Verdict]] = {}

        def ask(proof: Proof) -> Verdict:
            # With pytest-xdist, `--dist loadfile` gives all tests of one file to one worker.
            same = [each for each, file in files.items() if proof in files and file == files[proof]]
            for each in [proof, *same]:
                if each not in running:
                    running[each] = pool.submit(prover.prove, each)
            return running[proof].result()

        yield ask
        pool.shutdown(cancel_futures=True)
