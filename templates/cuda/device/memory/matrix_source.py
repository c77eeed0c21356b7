"""CUDA source of ldmatrix."""

READ_MATRICES = r"""
// Four matrices of eight rows of 16 bytes of shared memory, of which each lane names a row. A lane
// has a word of a row of each, or where they are TRANSPOSED two values of 16 bits of a column.
template <bool TRANSPOSED> __device__ __forceinline__ void read_matrices(
    unsigned (&to)[4], unsigned from) {
  if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
"""
