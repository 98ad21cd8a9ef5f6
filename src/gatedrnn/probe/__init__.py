"""Which small tasks a cell can learn, and at what length it still does them."""
