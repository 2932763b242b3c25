"""Python generators: every shard in a process of its own."""
