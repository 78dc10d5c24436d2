"""What users may ask for."""
