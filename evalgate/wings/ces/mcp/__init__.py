"""The door for assistants: CES resources as tools of the Model Context Protocol."""
