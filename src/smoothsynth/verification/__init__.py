"""Check a release folder from outside: what a third party does who trusts neither the folder nor its receipt."""

from smoothsynth.verification.check import Check, Verification
from smoothsynth.verification.verify import verify

__all__ = ["Check", "Verification", "verify"]
