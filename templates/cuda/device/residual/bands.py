"""Lists of bands: the entries of 16 neighbouring rows of a, or columns of b, one behind the other.

Entries lie in fours of 16 bytes: indices along k, 16 bits each, values, a byte each, and which of
the band's vectors has them. Eight fours are a step, and a list is filled up to whole steps.
"""

BAND = 16
"""Rows or columns of a band."""

STEP = 32
"""Entries of a step."""

STEP_BYTES = 4 * STEP

NOWHERE = 0xFFFF
"""The index of an entry of a that fills a list up; of b it is 0, which any panel has."""

BAND_ENTRIES = r"""
__device__ __forceinline__ void put_entry(
    void* fours, unsigned at, unsigned index, unsigned value) {
  unsigned char* four = static_cast<unsigned char*>(fours) + (size_t)(at / 4) * 16;
  reinterpret_cast<unsigned short*>(four)[at % 4] = (unsigned short)index;
  four[8 + at % 4] = (unsigned char)value;
}
__device__ __forceinline__ void put_owner(void* fours, unsigned at, unsigned owner) {
  static_cast<unsigned*>(fours)[at / 4 * 4 + 3] = owner;
}
"""
"""put_entry(fours, at, index, value) and put_owner(fours, at, owner): of entry `at`, and of its
four."""
