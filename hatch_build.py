"""What a wheel has that no file in git holds: the index of the rules, which start-up reads in place of their files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent


class IndexHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the index. An editable install needs none: a checkout keeps its own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it, and say where it belongs."""
        if version == "editable":
            return
        # What is imported here is plain Python: a build has none of the dependencies.
        sys.path[:0] = [str(ROOT), str(ROOT / "rules")]
        from gpudoctor import registry
        from gpudoctor.card_index import SHIPPED

        index = Path(tempfile.mkdtemp(prefix="gpudoctor-")) / SHIPPED
        index.write_bytes(registry.index_of(registry.BUILT_IN))
        build_data["force_include"][str(index)] = f"{registry.BUILT_IN}/{SHIPPED}"
