"""Models for programs without Python."""
