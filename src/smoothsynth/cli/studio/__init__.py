"""The walk from a file to a release as a page in the owner's browser, served to this machine alone."""
