"""What a wheel has that no file in git holds: the index of the rules and the table of what is known of libraries, which
start-up reads in place of many files, and the examples of the rules' pages, which are fixtures in a checkout; and what
a package index shows of it."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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

        self._folder = tempfile.TemporaryDirectory(prefix="gpudoctor-")
        folder, pack = Path(self._folder.name), registry.BUILT_IN
        tables = {
            f"{pack}/{card_index.SHIPPED}": registry.index_of(pack),
            f"{pack}/{page_examples.SHIPPED}": registry.examples_of(pack),
            f"gpudoctor/manifest/{compiled.SHIPPED}": compiled.built(),
        }
        for target, data in tables.items():
            written = folder / Path(target).name
            written.write_bytes(data)
            build_data["force_include"][str(written)] = target

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete them, which the wheel holds now."""
        if version != "editable":
            self._folder.cleanup()


class IndexPageHook(MetadataHookInterface):  # type: ignore[misc]
    """The addresses of the project, from the one of its repository, and a README whose links lead somewhere from the
    page of a package index."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the metadata of a release."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": linked(readme, repository)}
        metadata["urls"] = addresses(repository)


def addresses(repository: str) -> dict[str, str]:
    """What an index shows beside the text; nothing as long as there is no repository to show."""
    sys.path[:0] = [str(ROOT)]
    from gpudoctor.page_address import SITE

    site = {"Documentation": SITE} if SITE else {}
    if not repository:
        return site
    return {
        "Homepage": SITE or repository,
        **(site or {"Documentation": f"{repository}/blob/main/docs/index.md"}),
        "Source": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def linked(text: str, repository: str) -> str:
    """A text of Markdown with links into the repository; without one, with what they say alone."""

    def replaced(link: re.Match[str]) -> str:
        image, words, target = link.groups()
        if repository:
            return f"{image}[{words}]({repository}/{'raw' if image else 'blob'}/main/{target})"
        return "" if image else words

    return re.sub(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)", replaced, text)
