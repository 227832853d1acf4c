"""Where rows come from: files, frames, queries, each read cell by cell."""
