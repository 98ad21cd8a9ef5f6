"""Descriptions of layers, and diagnosis of the gates of a trained model on a text or a task."""
