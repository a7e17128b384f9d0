"""Whether index and store belong together (`streamctl fsck`, `streamctl reconcile`)."""
