"""`python -m tests.proofs FILE...`: run the proofs in these fixtures and print what they showed.

Without a file, it lists the claims that a proof may make.
"""

import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .claims import CLAIMS
from .harness import AT_ONCE, Proof, Prover, Verdict, parse


def main(names: list[str]) -> int:
    """Print a verdict for each proof; 1 if a claim does not hold."""
    if not names:
        for name, predicate in CLAIMS.items():
            print(f"{name:24} {inspect.getdoc(predicate)}")
        return 0
    if gone := [name for name in names if not Path(name).exists()]:
        print(f"there is no {', no '.join(gone)}", file=sys.stderr)
        return 2
    proofs = [proof for name in names for proof in find(Path(name))]
    if not proofs:
        print("no '# proof:' line in the first line of any of these files", file=sys.stderr)
        return 2
    failed = 0
    with Prover() as prover, ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(prover.prove, proofs):
            failed += not verdict.holds
            _show(verdict)
    print(f"{len(proofs) - failed} of {len(proofs)} proofs hold")
    return 1 if failed else 0


def find(path: Path) -> list[Proof]:
    """The proofs in a file, or in all files of a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [proof for file in files if (proof := parse(file)) is not None]


def _show(verdict: Verdict) -> None:
    print(f"== {verdict.proof.script} ({verdict.run.seconds:.1f} s)")
    print(verdict.explain(), end="\n\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
