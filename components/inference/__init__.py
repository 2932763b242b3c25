"""What an exported model answers, outside of a server: by hand, in bulk, in other formats."""
