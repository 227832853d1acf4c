"""Questions to a release: the answer on its synthetic rows, with an interval for what the private rows would say.

Everything here is computed from the release alone, so asking costs no budget, however often and in whatever order.
"""
