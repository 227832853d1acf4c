"""What privacy costs, and who has spent how much of it: arithmetic, and a ledger that never forgets."""
