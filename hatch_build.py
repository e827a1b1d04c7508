"""What a wheel has that no file in git holds: the index of the rules, which start-up reads in place of their files, and
the examples of their pages, which are fixtures in a checkout."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent


class TablesHook(BuildHookInterface):  # type: ignore[misc]
    """Adds both. An editable install needs neither: a checkout keeps its own index, and has the fixtures."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them, and say where they belong."""
        if version == "editable":
            return
        # What is imported here is plain Python: a build has none of the dependencies.
        sys.path[:0] = [str(ROOT), str(ROOT / "rules")]
        from gpudoctor import card_index, page_examples, registry

        folder, pack = Path(tempfile.mkdtemp(prefix="gpudoctor-")), registry.BUILT_IN
        tables = {card_index.SHIPPED: registry.index_of(pack), page_examples.SHIPPED: registry.examples_of(pack)}
        for name, data in tables.items():
            (folder / name).write_bytes(data)
            build_data["force_include"][str(folder / name)] = f"{pack}/{name}"
