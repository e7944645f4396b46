"""The door for a browser on this machine: the page of report.html, live."""
