"""Language models of running text."""
