"""CUDA source of what a quantised model fixes of its attention, and how it is read."""

FIXED = r"""
// What a model fixes of scores, of shares and of y, in their order in memory. Each part is read
// when it is first needed, since registers are rare while scores wait.
struct OfScores {
  float scale, scores_low, scores_high, rescale, rescaled_low, rescaled_high, scores_step;
  float masked_low, masked_high, masked_step;
};
struct OfShares { float shares_most, shares_step; };
struct OfOutputs { float out_scale, low, high, zero_point; };

template <class Part> __device__ __forceinline__ Part read_part(const float* from) {
  Part part;
  float* all = reinterpret_cast<float*>(&part);
  #pragma unroll
  for (int i = 0; i < sizeof(Part) / 4; ++i) all[i] = __ldg(from + i);
  return part;
}
"""
