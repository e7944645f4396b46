"""What the criteria that ask a judge share: their options, their ballots, and how votes become a grade."""
