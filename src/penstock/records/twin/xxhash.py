"""XXH32 with seed 0: the checksum of lz4 frames, of their headers, blocks and content."""

from struct import Struct

from penstock.records.layout import Buffer

STRIPE = Struct("<4I")
WORD = Struct("<I")
MASK = 0xFFFFFFFF
PRIME1, PRIME2, PRIME3, PRIME4, PRIME5 = (
    2654435761,
    2246822519,
    3266489917,
    668265263,
    374761393,
)


def xxh32(data: Buffer) -> int:
    count = len(data)
    stripes_end = count // STRIPE.size * STRIPE.size
    words_end = count // WORD.size * WORD.size
    digest = PRIME5
    if stripes_end > 0:
        lanes = [(PRIME1 + PRIME2) & MASK, PRIME2, 0, -PRIME1 & MASK]
        for position in range(0, stripes_end, STRIPE.size):
            words = STRIPE.unpack_from(data, position)
            lanes = [
                _rotate((lane + word * PRIME2) & MASK, 13) * PRIME1 & MASK
                for lane, word in zip(lanes, words, strict=True)
            ]
        digest = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    digest = (digest + count) & MASK
    for position in range(stripes_end, words_end, WORD.size):
        (word,) = WORD.unpack_from(data, position)
        digest = _rotate((digest + word * PRIME3) & MASK, 17) * PRIME4 & MASK
    for byte in data[words_end:]:
        digest = _rotate((digest + byte * PRIME5) & MASK, 11) * PRIME1 & MASK
    digest = (digest ^ digest >> 15) * PRIME2 & MASK
    digest = (digest ^ digest >> 13) * PRIME3 & MASK
    return digest ^ digest >> 16


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & MASK
