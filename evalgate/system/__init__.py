"""What lies outside: git, child processes, Python environments, HTTP, secrets in what they say."""
