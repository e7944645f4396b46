"""What reports show of a run: counts, the cases that broke, expected beside actual; `gfm` spells it for GitHub."""
