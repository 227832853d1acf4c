"""The page of a release: what it holds (contents) and how it is drawn (html); made of the release alone."""
