"""Drives `vor top` in tmux, a terminal of 80 by 24 characters, and reads its screen."""
