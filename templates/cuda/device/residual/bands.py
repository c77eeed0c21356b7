"""Lists of bands: the entries of 16 neighbouring rows of a, or columns of b, in any order.

32 entries are a step, what one instruction of the tensor cores multiplies, and a list is filled up
to whole steps with entries of zero. A step is eight fours of 16 bytes: indices along k, 16 bits
each, values, a byte each, and which of the band's vectors has each of them, a byte.
"""

BAND = 16
"""Rows or columns of a band."""

STEP = 32
"""Entries of a step."""

STEP_BYTES = 4 * STEP

NOWHERE = 0xFFFF
"""The index of an entry of a that fills a list up; of b it is 0, which any panel has."""

SHARED_WORDS = 18
"""Words of shared memory of a block that writes a list: see `LIST_BAND`."""

# ldmatrix reads what eight entries gather together, 16 bytes of each: no two of them meet in a bank
# where their k differ modulo 8. So the first entry of each remainder is in the first eight, and so
# on; entries of a remainder that has more of them than the list has eights take places that others
# leave, which are counted through all remainders.
LIST_BAND = r"""
struct Band { unsigned counts[8], taken[8], beyond, start; };  // in shared memory
__device__ __forceinline__ void put_entry(
    void* steps, unsigned eight, unsigned place, unsigned k, unsigned value, unsigned owner) {
  const unsigned four = eight / 2 * 4 + place / 2, at = eight % 2 * 2 + place % 2;
  unsigned char* to = static_cast<unsigned char*>(steps) + (size_t)four * 16;
  reinterpret_cast<unsigned short*>(to)[at] = (unsigned short)k;
  to[8 + at] = (unsigned char)value, to[12 + at] = (unsigned char)owner;
}
// A place that no remainder's own entries take.
__device__ __forceinline__ void put_beyond(
    void* steps, const Band& band, unsigned eights, unsigned which, unsigned k, unsigned value,
    unsigned owner) {
  unsigned place = 0;
  for (; place < 7; ++place) {
    const unsigned left = eights - min(band.counts[place], eights);
    if (which < left) break;
    which -= left;
  }
  put_entry(steps, band.counts[place] + which, place, k, value, owner);
}
__device__ __forceinline__ void list_entry(
    void* steps, Band& band, unsigned eights, unsigned k, unsigned value, unsigned owner) {
  const unsigned before = atomicAdd(&band.taken[k % 8], 1u);
  if (before < eights) put_entry(steps, before, k % 8, k, value, owner);
  else put_beyond(steps, band, eights, atomicAdd(&band.beyond, 1u), k, value, owner);
}
// Fills a list up that has so many entries of its own.
__device__ __forceinline__ void fill_up(
    void* steps, const Band& band, unsigned eights, unsigned count, unsigned k, unsigned thread) {
  unsigned beyond = 0;
  #pragma unroll
  for (int r = 0; r < 8; ++r) beyond += max(band.counts[r], eights) - eights;
  const unsigned which = beyond + thread;
  if (which < 8 * eights - (count - beyond)) put_beyond(steps, band, eights, which, k, 0, 0);
}
"""
"""list_entry and fill_up; a Band in shared memory holds how many entries have each remainder of k
modulo 8, which must be counted before, how many of these are listed, and how many took the places
of others."""
