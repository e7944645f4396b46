"""Untrusted text made safe for the places where people read: Markdown, HTML, workflow logs."""
