"""One zygote for all proofs of a session, and the verdicts of those that were collected."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from .harness import AT_ONCE, Proof, Prover, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def prover() -> Iterator[Prover]:
    """The process that ranks are forked from."""
    pytest.importorskip("torch", reason="proofs are run with torch, which is not installed")
    if not sys.platform.startswith("linux"):
        pytest.skip("ranks are forked and watched through /proc, so proofs need Linux")
    with Prover() as started:
        yield started


@pytest.fixture(scope="session")
def verdict_of(prover: Prover, request: pytest.FixtureRequest) -> Iterator[Callable[[Proof], Verdict]]:
    """Runs every proof that this session will ask for, several at a time, from the first question on."""
    wanted = [item.callspec.params.get("proof") for item in request.session.items if hasattr(item, "callspec")]
    # A worker of pytest-xdist sees the items of all workers; only by groups are all of these its own.
    mine = "PYTEST_XDIST_WORKER" not in os.environ or request.config.getoption("loadgroup", default=False)
    ahead = [proof for proof in wanted if isinstance(proof, Proof)] if mine else []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: dict[Proof, Future[Verdict]] = {proof: pool.submit(prover.prove, proof) for proof in ahead}

        def ask(proof: Proof) -> Verdict:
            if proof not in running:
                running[proof] = pool.submit(prover.prove, proof)
            return running[proof].result()

        yield ask
        pool.shutdown(cancel_futures=True)
