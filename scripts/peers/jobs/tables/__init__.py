"""The habits of each tool, by name."""
