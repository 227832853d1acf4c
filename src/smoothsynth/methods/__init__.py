"""Designs: which moments to measure, with which noise and shares, chosen from public facts."""
