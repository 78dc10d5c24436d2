"""What is served over HTTP. Knows no store and no engine: values and verbs are handed in."""
