"""Speed beside the peers: `python -m bench [name …]`, or `make bench ONLY=name`."""
