"""CUDA source of what warps of bytes tell each other that share rows, each with keys of its own."""

JOINING = r"""
  // The largest scores and the sums of powers that this warp has seen, for the others.
  __device__ __forceinline__ float2* told(char* shared, int warp, int r, int half, int lane) const {
    return reinterpret_cast<float2*>(shared + KEPT_AT) +
           (warp * ROW_TILES + r) * 16 + half * 8 + lane / 4;
  }
  __device__ __forceinline__ void tell(char* shared, int lane) {
    join_lanes(top, total, factor);
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        if (lane % 4 == 0)
          *told(shared, threadIdx.x / 32, r, half, lane) =
              make_float2(top.of[r][half], total.of[r][half]);
  }
  // When all have told: powers stay over what this warp takes for the largest score.
  __device__ __forceinline__ void hear(char* shared, int lane) {
    const int first = threadIdx.x / 32 / KEY_WARPS * KEY_WARPS;
    RowPairs moved;
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 of[KEY_WARPS];
        float most = -infinity(), sum = 0.f;
        #pragma unroll
        for (int part = 0; part < KEY_WARPS; ++part) {
          of[part] = *told(shared, first + part, r, half, lane);
          most = fmaxf(most, of[part].x);
        }
        #pragma unroll
        for (int part = 0; part < KEY_WARPS; ++part)
          sum = __fmaf_rn(of[part].y, power_of_two((of[part].x - base_of(most)) * factor), sum);
        moved.of[r][half] = power_of_two((top.of[r][half] - base_of(most)) * factor);
        total.of[r][half] = sum;
      }
    begin_shares();
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) inverse.of[r][half] *= moved.of[r][half];
  }
  // The first warp of some rows adds up the products of all, which lie where keys were, and where
  // values were when all warps have left them.
  __device__ __forceinline__ void join_sums(char* shared, int lane) {
    constexpr int PARTS = ROW_TILES * (OUT_TILES + 1);
    const int part = threadIdx.x / 32 % KEY_WARPS;
    int4* from = reinterpret_cast<int4*>(shared + ROWS * PITCH) +
                 threadIdx.x / 32 / KEY_WARPS * ((KEY_WARPS - 1) * PARTS * 32) + lane;
    constexpr bool MANY = WARPS / KEY_WARPS * (KEY_WARPS - 1) * PARTS * 512 > TILE_BYTES;
    if constexpr (MANY) __syncthreads();
    if (part > 0) {
      int4* to = from + (part - 1) * (PARTS * 32);
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) {
        #pragma unroll
        for (int t = 0; t < OUT_TILES; ++t) {
          auto& s = sums[r][t];
          to[(r * (OUT_TILES + 1) + t) * 32] = make_int4(s[0], s[1], s[2], s[3]);
        }
        to[(r * (OUT_TILES + 1) + OUT_TILES) * 32] =
            make_int4(shares_sum[r][0], shares_sum[r][1], 0, 0);
      }
    }
    __syncthreads();
    if (part > 0) return;
    #pragma unroll
    for (int other = 0; other < KEY_WARPS - 1; ++other, from += PARTS * 32)
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) {
        #pragma unroll
        for (int t = 0; t < OUT_TILES; ++t) {
          const int4 s = from[(r * (OUT_TILES + 1) + t) * 32];
          auto& own = sums[r][t];
          own[0] += s.x, own[1] += s.y, own[2] += s.z, own[3] += s.w;
        }
        const int4 of_shares = from[(r * (OUT_TILES + 1) + OUT_TILES) * 32];
        shares_sum[r][0] += of_shares.x, shares_sum[r][1] += of_shares.y;
      }
  }
"""
"""Members of struct State."""
