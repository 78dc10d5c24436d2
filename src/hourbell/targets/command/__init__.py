"""Commands on the node's machine."""
