"""Exhibits spelled in HTML, for the report page."""
