"""Series of numbers: files of them (.ts, tables with a row a time, WAV), and the tasks made of them."""
