"""What stands around every judge: voting, cache, rates, budget, accounts, and the panel that ties them together."""
