"""Code shared by all commands: options, output, time parsing and the connection to a server."""
