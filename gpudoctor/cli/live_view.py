"""The live view of a probe: what it does now, how far it is, and where each rank stands. On a terminal only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from gpudoctor.probe.options import News

_MOST_RANKS = 16
_WIDTH = 30


class LiveView:
    """Draws on standard error, and wipes itself off at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=8, transient=True)
        self._began = time.monotonic()

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def tell(self, news: News) -> None:
        """Show what is new."""
        self._live.update(self._picture(news))

    def _picture(self, news: News) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        picture = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=news.of or 1, completed=news.done, width=_WIDTH)
        seconds = time.monotonic() - self._began
        picture.add_row(bar, Text(f"{seconds:4.0f} s  {news.doing}", no_wrap=True, overflow="ellipsis"))
        for rank, state in sorted(news.states.items())[:_MOST_RANKS]:
            where = state.mark if state.inside else "waits for the others" if state.pid else "is being started"
            picture.add_row(
                Text(f"rank {rank}", style="dim"), Text(where, style="dim", no_wrap=True, overflow="ellipsis")
            )
        if len(news.states) > _MOST_RANKS:
            picture.add_row("", Text(f"and {len(news.states) - _MOST_RANKS} more ranks", style="dim"))
        return picture
