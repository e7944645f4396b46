"""What the user's configuration files say."""
