"""gatedrnn cache."""

from rich.table import Table

from gatedrnn.terminal import Console


def cache(*, clear: bool = False) -> None:
    """Show the cache of tokenised texts, or clear it: they are tokenised again when a run needs them.

    Args:
        clear: Remove them all. A run that is under way keeps what it has opened.
    """
    from gatedrnn.data import token_cache

    console = Console()
    if clear:
        freed = token_cache.clear()
        console.print(f"{token_cache.cache_folder()}: {freed:,} bytes removed", soft_wrap=True, highlight=False)
        return
    entries = list(token_cache.kept())
    table = Table("text", "tokenizer", title="tokenised texts", title_justify="left")
    for column in ("tokens", "bytes"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for entry in entries:
        state = f"{entry.fault}: made again when it is needed" if entry.fault else "whole"
        table.add_row(entry.texts or entry.folder.name, entry.tokenizer, f"{entry.tokens:,}", f"{entry.bytes:,}", state)
    if entries:
        console.print(table)
    total = sum(entry.bytes for entry in entries)
    console.print(
        f"{token_cache.cache_folder()}: texts: {len(entries)}, bytes: {total:,}",
        soft_wrap=True,
        highlight=False,
    )
