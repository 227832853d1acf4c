"""One release of the rows of several owners, who never show them to each other (docs/federated.md).

The coordinator starts a study; each site answers each request with a sealed file; the coordinator adds the files, and
noise is drawn once for all rows together.
"""

from smoothsynth.federated.coordinator import Status, add, make_key, start, status, sums
from smoothsynth.private.sites.keys import fingerprint
from smoothsynth.private.sites.protocol import Request, Site, Study

__all__ = ["Request", "Site", "Status", "Study", "add", "fingerprint", "make_key", "start", "status", "sums"]
