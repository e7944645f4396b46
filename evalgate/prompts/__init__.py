"""What judges are asked, and how their replies are read: one file a question, each with its version."""
