"""What all commands share: options, output, times, the connection to a server."""
