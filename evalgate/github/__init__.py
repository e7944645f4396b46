"""GitHub as it is met in a workflow: events, the API's client, the comment, the check run, artifacts, pull requests."""
