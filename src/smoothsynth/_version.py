"""The version of the software, as written into receipts."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("smoothsynth")
except PackageNotFoundError:  # running from a source tree that is not installed
    VERSION = "0.0.0+source"
