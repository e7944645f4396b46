"""What Google's agents-cli and Google Cloud's evaluation service understand: datasets, metrics, and
the criteria that ADK asks the service for."""
