"""Where exact sums are computed: one file for each engine, all with the same kernel."""
