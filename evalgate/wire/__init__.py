"""How contents, events and invocations are written in files and on pipes, and their way to the nouns."""
