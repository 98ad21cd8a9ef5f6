"""What this project measures of itself: other libraries, the family, torch's layers in place, whole models."""
