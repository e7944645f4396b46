"""What was asked for: settings, evalgate.yml, policy."""
