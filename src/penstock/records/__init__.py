"""Record batches: their bytes, how they are built, read and checked."""
