"""What a wheel has that no file in git holds: the index of the rules and the table of what is known of libraries, which
start-up reads in place of many files, and the examples of the rules' pages, which are fixtures in a checkout."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent


class TablesHook(BuildHookInterface):  # type: ignore[misc]
    """Adds them. An editable install needs none: a checkout keeps its own tables, and has the fixtures."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them, and say where they belong."""
        if version == "editable":
            return
        # What is imported here is plain Python: a build has none of the dependencies.
        sys.path[:0] = [str(ROOT), str(ROOT / "rules")]
        from gpudoctor import card_index, page_examples, registry
        from gpudoctor.manifest import compiled

        folder, pack = Path(tempfile.mkdtemp(prefix="gpudoctor-")), registry.BUILT_IN
        tables = {
            f"{pack}/{card_index.SHIPPED}": registry.index_of(pack),
            f"{pack}/{page_examples.SHIPPED}": registry.examples_of(pack),
            f"gpudoctor/manifest/{compiled.SHIPPED}": compiled.built(),
        }
        for target, data in tables.items():
            written = folder / Path(target).name
            written.write_bytes(data)
            build_data["force_include"][str(written)] = target
