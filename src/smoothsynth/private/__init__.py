"""Rows exist only here: the table, the engines that sum it, the ledger, the noise and the one door out."""
