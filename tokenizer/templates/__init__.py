"""Chat templates of other authors, which are programs: each runs in a process of its own, within bounds."""
