"""Running trials and scoring them."""
