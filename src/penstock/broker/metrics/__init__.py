"""What a node tells of itself: gathered from what it knows anyway, when somebody asks."""
