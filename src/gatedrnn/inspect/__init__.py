"""What a trained model's gates do on a text or a task."""
