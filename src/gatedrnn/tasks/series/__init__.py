"""Series of numbers with a class or a number each."""
