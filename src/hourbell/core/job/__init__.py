"""A job as users define it: its fields, its target, its JSON forms, and how changes are decided."""
