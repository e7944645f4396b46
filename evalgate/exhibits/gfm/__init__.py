"""Exhibits spelled in GitHub's Markdown, for the comment and the job summary."""
