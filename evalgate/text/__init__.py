"""Text as people read it: numbers and lists in words, and untrusted text made safe for Markdown,
HTML and logs."""
