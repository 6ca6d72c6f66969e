"""The checksum of lz4 frames: by the kernel where it was compiled, else by its twin, slowly."""

try:
    from penstock.records.kernel.xxhash import xxh32

    XXHASH_COMPILED = True
except ImportError:  # there was no compiler where this was installed
    from penstock.records.twin.xxhash import xxh32

    XXHASH_COMPILED = False

__all__ = ["XXHASH_COMPILED", "xxh32"]
