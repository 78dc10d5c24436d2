"""What a run calls. A target turns the outside world into an outcome; it never retries and never touches the store."""
