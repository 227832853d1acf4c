"""From noisy moments to rows. Post-processing only (docs/proofs/post-processing.md): cannot import private/."""
