"""Consumer groups and their committed offsets: what runs the machines of coordinator/."""
