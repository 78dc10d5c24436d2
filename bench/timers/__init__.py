"""The peers that call functions at instants, and the bare timers, each in a process of its own."""
