"""One child process, bounded: its group, its output, its memory, its end."""
