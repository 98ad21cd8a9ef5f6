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
    for one in entries:
        state = f"{one.fault}: made again when it is needed" if one.fault else "whole"
        table.add_row(one.texts or one.folder.name, one.tokenizer, f"{one.tokens:,}", f"{one.bytes:,}", state)
    if entries:
        console.print(table)
    total = sum(one.bytes for one in entries)
    console.print(
        f"{token_cache.cache_folder()}: texts: {len(entries)}, bytes: {total:,}",
        soft_wrap=True,
        highlight=False,
    )
