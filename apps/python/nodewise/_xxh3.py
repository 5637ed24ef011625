"""XXH3 with 64 bits, the hash of a dump's records (docs/formats/hash.md)."""

from __future__ import annotations

from typing import Any

_MASK = (1 << 64) - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
            0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
_STRIPE = 64
# So many stripes are added up before the sums are stirred.
_STRIPES = (len(_SECRET) - _STRIPE) // 8
_BLOCK = _STRIPE * _STRIPES
_BLOCKS_AT_ONCE = 4096


def xxh3_64(data: Any) -> int:
    """The hash of all bytes."""
    data = memoryview(data).cast("B")
    size = data.nbytes
    if size > 240:
        return _long(data)
    data = bytes(data)
    if size > 128:
        return _up_to_240(data)
    if size > 16:
        return _up_to_128(data)
    return _up_to_16(data)


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "big"), "little")
        return _avalanche(size + swapped + high + _folded(low, high))
    if size >= 4:
        first = int.from_bytes(data[:4], "little")
        last = int.from_bytes(data[-4:], "little")
        hashed = (last + (first << 32)) ^ (_u64(_SECRET, 8) ^
                                           _u64(_SECRET, 16))
        hashed ^= _turned(hashed, 49) ^ _turned(hashed, 24)
        hashed = hashed * 0x9FB21C651E98DF25 & _MASK
        hashed ^= (hashed >> 35) + size
        hashed = hashed * 0x9FB21C651E98DF25 & _MASK
        return hashed ^ hashed >> 28
    if size:
        both = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _stirred(both ^ int.from_bytes(_SECRET[:4], "little") ^
                        int.from_bytes(_SECRET[4:8], "little"))
    return _stirred(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _up_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64[0]
    for i in reversed(range((size - 1) // 32 + 1)):
        total += _mixed(data, 16 * i, 32 * i)
        total += _mixed(data, size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(total)


def _up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64[0]
    for i in range(8):
        total += _mixed(data, 16 * i, 16 * i)
    total = _avalanche(total)
    for i in range(8, size // 16):
        total += _mixed(data, 16 * i, 16 * (i - 8) + 3)
    return _avalanche(total + _mixed(data, size - 16, 136 - 17))


def _long(data: memoryview) -> int:
    import numpy  # pylint: disable=import-outside-toplevel
    size = data.nbytes
    # Whole blocks are added up and stirred; the last one is not stirred, and
    # is never empty.
    blocks = (size - 1) // _BLOCK
    stripes = (size - 1 - blocks * _BLOCK) // _STRIPE
    keys = numpy.stack([_keys(numpy, 8 * i) for i in range(_STRIPES)])
    sums = _stirred_sums(numpy, data, blocks, keys)
    words = numpy.frombuffer(data, "<u8", stripes * 8, blocks * _BLOCK)
    sums += _added(numpy, words.reshape(1, stripes, 8), keys[:stripes])[0]
    last = numpy.frombuffer(bytes(data[-_STRIPE:]), "<u8").reshape(1, 1, 8)
    sums += _added(numpy, last, _keys(
        numpy, len(_SECRET) - _STRIPE - 7)[None])[0]
    total = size * _PRIME64[0]
    numbers = [int(each) for each in sums]
    for i in range(0, 8, 2):
        total += _folded(numbers[i] ^ _u64(_SECRET, 11 + 8 * i),
                         numbers[i + 1] ^ _u64(_SECRET, 19 + 8 * i))
    return _avalanche(total)


def _stirred_sums(numpy: Any, data: memoryview, blocks: int, keys: Any) -> Any:
    sums = numpy.array([_PRIME32[2], _PRIME64[0], _PRIME64[1], _PRIME64[2],
                        _PRIME64[3], _PRIME32[1], _PRIME64[4], _PRIME32[0]],
                       numpy.uint64)
    end_key = _keys(numpy, len(_SECRET) - _STRIPE)
    prime = numpy.uint64(_PRIME32[0])
    # What the stripes of a block add does not depend on the sums before it,
    # so that many blocks are added up at once.
    for start in range(0, blocks, _BLOCKS_AT_ONCE):
        some = min(_BLOCKS_AT_ONCE, blocks - start)
        words = numpy.frombuffer(data, "<u8", some * _BLOCK // 8,
                                 start * _BLOCK)
        for added in _added(numpy, words.reshape(some, _STRIPES, 8), keys):
            sums += added
            sums = (sums ^ sums >> numpy.uint64(47) ^ end_key) * prime
    return sums


def _added(numpy: Any, words: Any, keys: Any) -> Any:
    """What the stripes of each block add to the eight sums."""
    keyed = words ^ keys
    products = (keyed & numpy.uint64(0xFFFFFFFF)) * (keyed >> numpy.uint64(32))
    # Each word itself is added to the sum of its neighbour.
    neighbours = words.reshape(*words.shape[:2], 4, 2)[..., ::-1]
    products += neighbours.reshape(words.shape)
    return products.sum(axis=1, dtype=numpy.uint64)


def _keys(numpy: Any, start: int) -> Any:
    return numpy.frombuffer(_SECRET, "<u8", 8, start)


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:at + 8], "little")


def _folded(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _mixed(data: bytes, at: int, key: int) -> int:
    return _folded(_u64(data, at) ^ _u64(_SECRET, key),
                   _u64(data, at + 8) ^ _u64(_SECRET, key + 8))


def _turned(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _avalanche(number: int) -> int:
    number &= _MASK
    number = (number ^ number >> 37) * 0x165667919E3779F9 & _MASK
    return number ^ number >> 32


def _stirred(number: int) -> int:
    number = (number ^ number >> 33) * _PRIME64[1] & _MASK
    number = (number ^ number >> 29) * _PRIME64[2] & _MASK
    return number ^ number >> 32
