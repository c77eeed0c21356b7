// What warps do together, for a host compiler: a thread of the host for each thread of a block.
// A copy of cp.async happens when its group is waited for, its target holds rubbish until then.
#include <atomic>
#include <deque>

#define __grid_constant__

struct alignas(8) int2 { int x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) int4 { int x, y, z, w; };

struct SpinBarrier {
  explicit SpinBarrier(int count) : size(count) {}
  void wait() {
    const int now = phase.load();
    if (arrived.fetch_add(1) + 1 == size) {
      arrived.store(0);
      phase.fetch_add(1);
    } else {
      while (phase.load() == now) std::this_thread::yield();
    }
  }
  const int size;
  std::atomic<int> arrived{0}, phase{0};
};

static const int WARPS = 32, SMEM_BYTES = 228 << 10;
alignas(128) static unsigned char shared_memory[SMEM_BYTES];
static SpinBarrier* block_barrier;
static std::vector<SpinBarrier*> warp_barriers;
static unsigned exchanged[WARPS][32][6];

struct Copy { unsigned to; const void* from; unsigned bytes, filled; };
static thread_local std::vector<Copy> open_group;
static thread_local std::deque<std::vector<Copy>> groups;

inline void require(bool holds) { if (!holds) __builtin_trap(); }

inline unsigned shared_address(const void* pointer) {
  return (unsigned)((const unsigned char*)pointer - shared_memory);
}
inline void shared_store(unsigned at, const unsigned* words, int bytes) {
  require(at % bytes == 0 && at + bytes <= SMEM_BYTES);
  memcpy(shared_memory + at, words, bytes);
}
inline void shared_load(unsigned* words, unsigned at, int bytes) {
  require(at % bytes == 0 && at + bytes <= SMEM_BYTES);
  memcpy(words, shared_memory + at, bytes);
}
inline void global_load(unsigned* words, const void* from, int bytes) {
  require((uintptr_t)from % bytes == 0);
  memcpy(words, from, bytes);
}
inline void copy_async(unsigned to, const void* from, unsigned bytes, unsigned filled) {
  require(to % filled == 0 && (!bytes || (uintptr_t)from % filled == 0));
  memset(shared_memory + to, 0x77, filled);
  open_group.push_back({to, from, bytes, filled});
}
inline void commit_copies() {
  groups.push_back(open_group);
  open_group.clear();
}
inline void wait_for_copies(unsigned pending) {
  for (; groups.size() > pending; groups.pop_front())
    for (const Copy& copy : groups.front()) {
      memcpy(shared_memory + copy.to, copy.from, copy.bytes);
      memset(shared_memory + copy.to + copy.bytes, 0, copy.filled - copy.bytes);
    }
}

// The words of all lanes of the warp.
inline void exchange(const unsigned* mine, int count, unsigned (*all)[6]) {
  const int warp = threadIdx.x / 32;
  memcpy(exchanged[warp][threadIdx.x % 32], mine, count * sizeof *mine);
  warp_barriers[warp]->wait();
  memcpy(all, exchanged[warp], sizeof exchanged[warp]);
  warp_barriers[warp]->wait();
}
inline unsigned __shfl_xor_sync(unsigned, unsigned value, int distance) {
  unsigned all[32][6];
  exchange(&value, 1, all);
  return all[threadIdx.x % 32 ^ distance][0];
}
inline void load_matrices(unsigned* words, int count, unsigned address) {
  unsigned all[32][6];
  exchange(&address, 1, all);
  const int lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < count; ++matrix) {
    const unsigned row = all[matrix * 8 + lane / 4][0];
    require(row % 16 == 0);
    memcpy(&words[matrix], shared_memory + row + lane % 4 * 4, 4);
  }
}
inline int element(unsigned word, int index, int bits, bool is_signed) {
  const int value = word >> bits * index & ((1u << bits) - 1);
  return is_signed && value >> (bits - 1) ? value - (1 << bits) : value;
}
// m16n8 or m8n8 of integers, as the PTX manual lays them out.
struct Integers { int m, k, bits; bool a_signed, b_signed; };
inline void multiply(
    unsigned* d, const unsigned* a, const unsigned* b, const unsigned* c, Integers kind) {
  const int blocks = kind.m / 8, lane = threadIdx.x % 32;
  const int b_words = kind.k * kind.bits / 128, a_words = blocks * b_words;
  unsigned mine[6], all[32][6];
  memcpy(mine, a, a_words * 4);
  memcpy(mine + a_words, b, b_words * 4);
  exchange(mine, a_words + b_words, all);
  for (int e = 0; e < 2 * blocks; ++e) {
    const int row = lane / 4, column = lane % 4 * 2 + e % 2;
    d[e] = c[e];
    for (int k = 0; k < b_words; ++k)
      for (int quarter = 0; quarter < 4; ++quarter)
        for (int i = 0; i < 32 / kind.bits; ++i) {
          const unsigned left = all[row * 4 + quarter][blocks * k + e / 2];
          const unsigned right = all[column * 4 + quarter][a_words + k];
          d[e] += element(left, i, kind.bits, kind.a_signed) *
                  element(right, i, kind.bits, kind.b_signed);
        }
  }
}
// The value of half a register: f16, or bf16.
inline float half_value(unsigned word, int index, bool brain) {
  const unsigned bits = word >> 16 * index & 0xffff, upper = bits << 16;
  if (brain) {
    float value;
    memcpy(&value, &upper, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
  return bits >> 15 ? -size : size;
}
// m16n8 of 16-bit floats with float accumulators, likewise; added in double precision.
inline void multiply_halves(
    float* d, const unsigned* a, const unsigned* b, const float* c, int k, bool brain) {
  const int b_words = k / 8, a_words = 2 * b_words, lane = threadIdx.x % 32;
  unsigned mine[6], all[32][6];
  memcpy(mine, a, a_words * 4);
  memcpy(mine + a_words, b, b_words * 4);
  exchange(mine, a_words + b_words, all);
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4, column = lane % 4 * 2 + e % 2;
    double sum = c[e];
    for (int word = 0; word < b_words; ++word)
      for (int quarter = 0; quarter < 4; ++quarter)
        for (int i = 0; i < 2; ++i)
          sum += double(half_value(all[row * 4 + quarter][2 * word + e / 2], i, brain)) *
                 half_value(all[column * 4 + quarter][a_words + word], i, brain);
    d[e] = float(sum);
  }
}


// What hand-written device functions say in inline PTX.
inline unsigned __cvta_generic_to_shared(const void* pointer) { return shared_address(pointer); }
inline void __syncthreads() { block_barrier->wait(); }
inline void __syncwarp() { block_barrier->wait(); }  // every warp of a block comes here alike
inline void load_matrices_into(std::vector<unsigned*> words, unsigned address) {
  unsigned found[4];
  load_matrices(found, words.size(), address);
  for (size_t i = 0; i < words.size(); ++i) *words[i] = found[i];
}
inline void multiply_into(
    std::vector<int*> d, std::vector<unsigned> a, std::vector<unsigned> b,
    std::vector<unsigned> c, bool a_signed) {
  unsigned sums[4];
  multiply(sums, a.data(), b.data(), c.data(), {16, 32, 8, a_signed, true});
  for (int i = 0; i < 4; ++i) *d[i] = sums[i];
}

template <class Kernel> inline void run_blocks(int blocks, int threads, Kernel kernel) {
  SpinBarrier together(threads);
  block_barrier = new SpinBarrier(threads);
  warp_barriers.clear();
  for (int warp = 0; warp < threads / 32; ++warp) warp_barriers.push_back(new SpinBarrier(32));
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([=, &together] {
      threadIdx = {t, 0, 0};
      for (int block = 0; block < blocks; ++block) {
        together.wait();
        if (t == 0) memset(shared_memory, 0x55, SMEM_BYTES);
        blockIdx = {block, 0, 0};
        together.wait();
        kernel();
      }
    });
  for (auto& thread : pool) thread.join();
}
