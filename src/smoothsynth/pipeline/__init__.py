"""From a table to a release folder, and from a folder to rows, answers and updates."""
