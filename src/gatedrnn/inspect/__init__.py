"""What a layer is, and what the gates of a trained model do on a text or a task."""
