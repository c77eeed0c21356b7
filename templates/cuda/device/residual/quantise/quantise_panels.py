"""Columns of float32 as integers in packed weights, read once: clusters hold panels of them.

Blocks of a cluster take parts of the rows of a panel of columns and keep them in registers while
they find the columns' largest values together. Meanwhile the next panel's values come to shared
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantise.held_panels import HELD_PANELS, shared_bytes
from autoq.templates.cuda.device.residual.quantise.panels import THREADS_A_UNIT, Panels
from autoq.templates.cuda.device.residual.quantise.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.quantise.quantise_columns import ColumnsQuantised
from autoq.templates.cuda.device.residual.turn_words import TURN_WORDS
from autoq.templates.cuda.device.residual.turned import TURNED_AT, turned_sizes
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT
from autoq.templates.target import Target

# Neighbouring lanes have a row of a panel, 64 or 128 bytes, and those that follow each other in
# steps of as many have 128 or 64 neighbouring values of a column. Blocks of a cluster meet once
# for each panel: sums of magnitudes are told with the largest values of the next one.
_SOURCE = r"""
struct Place { int rank, first, beside, thread; };  // first: row of the thread; beside: its column
// Read anew for each panel: what follows from it would else take registers all the while.
__device__ __forceinline__ Place place_of(int rank) {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return {rank, (rank * GROUPS + thread / ACROSS) * 16, thread % ACROSS * 4, thread};
}
// Writes the peaks of a panel, 16 of a column together.
__device__ __forceinline__ void write_peaks(
    unsigned char* peaks, const Shared& s, int panel, const Place& at) {
  constexpr int UNITS = GROUPS / 16;
  const int column = at.thread / UNITS, unit = at.rank * UNITS + at.thread % UNITS;
  if (at.thread < PANEL * UNITS && panel + column < COLUMNS && 16 * unit < PEAKS)
    reinterpret_cast<uint4*>(peaks)[(size_t)(panel + column) * (PEAKS / 16) + unit] =
        *reinterpret_cast<const uint4*>(s.peaks + column * PEAK_PITCH + at.thread % UNITS * 16);
}
// Writes residuals of a panel with k as rows, of the warp's rows.
__device__ __forceinline__ void write_bands(
    void* turned, const unsigned* bands, int column, const Place& at) {
  constexpr int VECTORS = PANEL / 16, ROWS = 32 / VECTORS;  // of a row, and that lanes have
  const int lane = at.thread % 32, top = (at.rank * GROUPS + at.thread / 32 * (32 / ACROSS)) * 16;
  __syncwarp();
  #pragma unroll
  for (int i = 0; i < 512 / ACROSS / ROWS; ++i) {
    const int own = i * ROWS + lane / VECTORS, row = top + own;
    const unsigned* from = bands + own / 16 * BAND + own % 16 * ACROSS + lane % VECTORS * 4;
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    if (row < LENGTH)
      static_cast<uint4*>(turned)[turned_at(row, column + lane % VECTORS * 16) / 16] = v;
  }
}
__device__ __forceinline__ void quantise_panel(
    const float4 (&v)[16], const float (&most)[4], void* values, void* residuals_of,
    const Shared& s, int panel, const Place& at) {
  unsigned rest[4][4];
  int whole[4] = {};
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int column = panel + at.beside + c;
    const Steps steps = {s.steps[at.beside + c], s.steps[PANEL + at.beside + c]};
    float sum = 0.f;
    unsigned words[4];
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      float q[4], finer[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float one = of_four(v[4 * w + i], c);
        q[i] = quantised(one, steps);
        if constexpr (SUMS) sum += magnitude(q[i]);
        finer[i] = RESIDUAL ? residual(one, q[i], steps) : 0.f;
      }
      words[w] = word_of(q[0], q[1], q[2], q[3]);
      rest[c][w] = word_of(finer[0], finer[1], finer[2], finer[3]);
    }
    if constexpr (SUMS) {
      whole[c] = (int)sum;
      s.peaks[(at.beside + c) * PEAK_PITCH + at.thread / ACROSS] =
          peak_of(magnitude(quantised(most[c], steps)));
    }
    if (at.first >= LENGTH || column >= COLUMNS) continue;
    const size_t to = packed_at(column, at.first) / 16;
    static_cast<uint4*>(values)[to] = make_uint4(words[0], words[1], words[2], words[3]);
    if constexpr (RESIDUAL && !TURNED)
      static_cast<uint4*>(residuals_of)[to] =
          make_uint4(rest[c][0], rest[c][1], rest[c][2], rest[c][3]);
  }
  if constexpr (TURNED) {
    unsigned* band = s.bands + at.thread / ACROSS * BAND + at.thread % ACROSS;
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned columns[4] = {rest[0][w], rest[1][w], rest[2][w], rest[3][w]};
      unsigned rows[4];
      turn_four(columns, rows);
      #pragma unroll
      for (int j = 0; j < 4; ++j) band[(4 * w + j) * ACROSS] = rows[j];
    }
  }
  if constexpr (SUMS) join_warp(whole, s.sum_parts, at.thread, added);
}
__device__ __forceinline__ void quantise_panels(
    const float* x, const float* bias, int* taken, void* values, void* residuals_of, float* scales,
    int* magnitudes, unsigned char* peaks, unsigned char* shared, int block, int thread) {
  const int rank = block % BLOCKS;
  const Shared s = shared_of(shared);
  int following = block / BLOCKS, panel = PANEL * following;
  const Place start = place_of(rank);
  ask_for(x, s.waiting, start.first, panel + start.beside, thread);
  begin_to_hear(s.heard, thread);
  // Others may still read what they were told a turn ago, so that there are two places for it.
  #pragma unroll 1
  for (int step = 0;; ++step) {
    const int turn = step % 2;
    const bool first = step == 0, last = following >= PANELS;  // sums of the one before are left
    if (last && !SUMS) break;
    const int before = panel;
    const Place at = place_of(rank);
    panel = PANEL * following;
    float4 v[16];
    float most[4] = {}, largest[4];
    int taken_before = 0;
    if (!last) {
      if (ROUNDS && rank == 0 && thread == 0) taken_before = atomicAdd(taken, 1);
      take(v, x, s.waiting, at.first, panel + at.beside, thread);
      #pragma unroll
      for (int i = 0; i < 16; ++i) {
        #pragma unroll
        for (int c = 0; c < 4; ++c) most[c] = fmaxf(most[c], fabsf(of_four(v[i], c)));
      }
      #pragma unroll
      for (int c = 0; c < 4; ++c) largest[c] = most[c];
      join_warp(largest, s.parts, thread, larger);
    }
    __syncthreads();
    unsigned long long* const heard = s.heard + turn;
    float* const of_turn = s.largest + turn * (BLOCKS * PANEL);
    int* const sums_of_turn = s.sums + turn * (BLOCKS * PANEL);
    const bool summed = SUMS && !first;  // the panel before
    if (thread == 0) {
      const int telling = BLOCKS * PANEL * 4;
      expect(heard, (last ? 0 : telling + ROUNDS * 4) + (summed && rank == 0 ? telling : 0));
      // Whoever asks last leaves zero again.
      if (ROUNDS && rank == 0 && !last) {
        if (taken_before == PANELS - 1) atomicExch(taken, 0);
        tell_all(s.following + turn, heard, CLUSTERS + taken_before);
      }
    }
    if (thread < PANEL && !last)
      tell_all(of_turn + PANEL * rank + thread, heard,
               __float_as_uint(join_block(s.parts, thread, larger)));
    if (summed) {
      const int column = thread % PANEL;
      int* const at_first = sums_of_turn + PANEL * rank + column;
      if (thread / PANEL == 1) tell(at_first, heard, join_block(s.sum_parts, column, added), 0);
      write_peaks(peaks, s, before, at);
    }
    if (thread < 2 * PANEL) hear(heard, step / 2 % 2);
    if (thread < PANEL && !last) {
      const Steps steps = steps_of(over_cluster(of_turn + thread, larger));
      s.steps[thread] = steps.scale, s.steps[PANEL + thread] = steps.inverse;
      if (rank == 0 && panel + thread < COLUMNS) {
        scales[panel + thread] = steps.scale;
        if constexpr (BIAS_AT > 0) scales[BIAS_AT + panel + thread] = __ldg(bias + panel + thread);
      }
    }
    if (summed && rank == 0 && thread / PANEL == 1 && before + thread % PANEL < COLUMNS)
      magnitudes[before + thread % PANEL] = over_cluster(sums_of_turn + thread % PANEL, added);
    if (last) break;
    __syncthreads();
    following = ROUNDS ? s.following[turn] : PANELS;
    if (following < PANELS) ask_for(x, s.waiting, at.first, PANEL * following + at.beside, thread);
    quantise_panel(v, most, values, residuals_of, s, panel, at);
    if constexpr (TURNED)
      write_bands(residuals_of, s.bands + thread / 32 * WARP_BANDS, panel, at);
  }
  if constexpr (BLOCKS > 1) meet_cluster();  // nobody leaves whose memory another one reads
}
"""


TAKEN = TensorSpec("panels_taken", (1,), "int32")
"""How many panels were asked for; 0 before and behind each run."""


def panels_kernel(
    columns: ColumnsQuantised, panels: Panels, turned: bool,
    parameters: Sequence[TensorSpec | None], target: Target,
) -> PrimFunc:  # fmt: skip
    """Parameters x, bias, those taken, values, residual, scale, sums, peaks: those not None.

    turned: residuals have k as rows, as `TURNED_AT` says, instead of lying as the values do.
    """
    threads, sums = panels.threads, columns.peaks > 0
    asks = panels.rounds and columns.columns % 4 == 0
    sizes = {
        **columns.sizes(), "PANEL": panels.columns, "THREADS": threads,
        "BLOCKS": panels.blocks, "PANELS": panels.count,
        "CLUSTERS": panels.clusters, "ROUNDS": panels.rounds, "ASKS": asks, "TURNED": turned,
        **turned_sizes(columns.length),
    }  # fmt: skip
    source = PACKED_AT + TURNED_AT + TURN_WORDS + QUANTISATION + HELD_PANELS + _SOURCE
    functions = DeviceNamespace("quantise_panels", source, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        given = iter(pointers)
        taken = [next(given) if spec else 0 for spec in parameters]
        size = (shared_bytes(panels, asks, sums, turned),)
        shared = builder.alloc_buffer(size, "uint8", scope="shared.dyn", align=128).data
        call(functions.function("quantise_panels"), *taken, shared, block, thread)

    given = [spec for spec in parameters if spec]
    return thread_kernel(
        given, panels.clusters * panels.blocks, threads, target, body, cluster=panels.blocks,
        together=max(1, THREADS_A_UNIT // threads),
    )  # fmt: skip
