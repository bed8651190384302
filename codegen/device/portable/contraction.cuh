// The contraction family: a block computes one tile of outputs from products over k, with row
// sums gathered before or along with them and an epilogue of both.
//
// Generated as
//   struct Kernel {
//     using Args = …; using Element = …;      // of tiles in shared memory
//     template <class K> using Tile = MmaTile<K> or FmaTile<K>;
//     static long long rows(args); static constexpr int kExtentN, kExtentK;
//     static constexpr int kTileM, kTileN, kTileK, kWarpsM, kWarpsN, kStages, kSplits, kStream,
//     kGroupM; static constexpr int kProducts, kOperandsA, kOperandsB, product_a(p), product_b(p);
//     template <int i> using OperandA = …, OperandB = …;       // operand_tile.cuh
//     static constexpr int kSums, kPasses; template <int p> using Pass = …;  // before the loop
//     using Row = …;                          // what operands and the loop's sums use of them
//     using LoopStats = Stats or NoStats;     // a pass gathered in the loop, from OperandA<0>
//     static constexpr int kOutputs, kRowOutputs;
//     template <int o> using Epilogue = …;    // row(args, m, sums); apply(args, row, acc…, m, n)
//     template <int o> using RowOutput = …;
//     static constexpr int kSideOutputs;      // elementwise along {row, k}, written once
//     template <int o> using SideOutput = …;  // as the rows family's Output
//     static constexpr int kSharedBytes; static constexpr bool kDependent;
//   };
#pragma once

#include "device/portable/fma_tile.cuh"
#include "device/portable/launch.cuh"
#include "device/portable/mma_tile.cuh"
#include "device/portable/operand_tile.cuh"
#include "device/portable/split.cuh"
#include "device/portable/stream.cuh"

namespace tenon::device::portable {

struct NoStats {
  static constexpr int kCount = 0;
  static constexpr int kFirst = 0;
};
struct NoRow {};

// Where the tiles of a stage lie, in elements.
template <class K>
struct StageTiles {
  using T = typename K::Element;
  static constexpr int kThreads = 32 * K::kWarpsM * K::kWarpsN;
  template <int i>
  using A = OperandTile<typename K::template OperandA<i>, T, K::kTileM, K::kTileK, kThreads>;
  template <int i>
  static constexpr bool kTransposed = K::template OperandB<i>::kTransposed;
  template <int i>
  using B = OperandTile<typename K::template OperandB<i>, T, kTransposed<i> ? K::kTileN : K::kTileK,
                        kTransposed<i> ? K::kTileK : K::kTileN, kThreads>;
  template <int i>
  static constexpr int a_offset() {
    return i * A<0>::kElements;
  }
  template <int i>
  static constexpr int b_offset() {
    if constexpr (i == 0)
      return a_offset<K::kOperandsA>();
    else
      return b_offset<i - 1>() + B<i - 1>::kElements;
  }
  static constexpr int kElements = b_offset<K::kOperandsB>();
};

// The loop's row sums: a partial for each chunk that this thread owns.
template <class K, class Tile>
struct LoopSums {
  using Stats = typename K::LoopStats;
  static constexpr bool kActive = true;
  const typename K::Args& args;
  float s[Tile::kOwned][Stats::kCount] = {};

  template <class X>
  __device__ __forceinline__ void add(int i, const X& x, const typename K::Row& row, int m, int k,
                                      int valid) {
    accumulate_run<Stats, Tile::V>(s[i], args, row, x, m, k, valid);
  }
  // Into sums[row × kSums]; all threads take part.
  __device__ __forceinline__ void store(float* sums) const {
#pragma unroll
    for (int i = 0; i < Tile::kOwned; ++i)
#pragma unroll
      for (int j = 0; j < Stats::kCount; ++j) {
        const float v = lanes_sum<Tile::kPerRow>(s[i][j]);
        if (threadIdx.x % Tile::kPerRow == 0 && Tile::owns(i))
          sums[Tile::row_of(i) * K::kSums + Stats::kFirst + j] = v;
      }
  }
};
struct NoSums {
  static constexpr bool kActive = false;
};

template <class K>
struct ContractionKernel {
  using Args = typename K::Args;
  using T = typename K::Element;
  using Tiles = StageTiles<K>;
  using Tile = typename K::template Tile<K>;
  using Row = typename K::Row;
  using Stats = typename K::LoopStats;
  static constexpr int kThreads = Tiles::kThreads;
  static constexpr int kSteps = (K::kExtentK + K::kTileK - 1) / K::kTileK;
  static constexpr int kShare = (kSteps + K::kSplits - 1) / K::kSplits;
  static constexpr int kTilesN = (K::kExtentN + K::kTileN - 1) / K::kTileN;

  // Shared memory: the ring of stages, what is known of rows before the loop, row sums.
  static constexpr int kRowsAt = K::kStages * Tiles::kElements * static_cast<int>(sizeof(T));
  static constexpr int kRowBytes = K::kUsesRows ? K::kTileM * static_cast<int>(sizeof(Row)) : 0;
  static constexpr int kSumsAt = kRowsAt + (kRowBytes + 15) / 16 * 16;
  static constexpr int kBytes = kSumsAt + K::kTileM * K::kSums * 4;
  static_assert(kBytes == K::kSharedBytes, "code generation counts shared memory alike");
  static_assert(K::kStages >= 2, "a ring has two stages or more");

  // A block's partial state of a split reduction, in floats.
  static constexpr int kAccumulators = K::kProducts * Tile::kQuads * 4 * kThreads;
  static constexpr int kPartial = kAccumulators + K::kTileM * Stats::kCount;
  static_assert((K::kSplits == 1 && K::kStream == 0) || kPartial == K::kPartialFloats,
                "code generation counts the workspace alike");

  struct Place {  // of this block's tile, and the steps of k that it takes
    int m0, n0, tile_n, begin, end;
    unsigned block, blocks;  // of this kernel's tiles
    __device__ __forceinline__ bool whole() const { return end - begin == kSteps; }
  };

  // Tiles are walked in groups of kGroupM rows of tiles, so that blocks that run together
  // share columns of B in L2.
  static __device__ __forceinline__ Place place(long long rows, unsigned block, unsigned blocks) {
    const unsigned tiles_m = static_cast<unsigned>((rows + K::kTileM - 1) / K::kTileM);
    constexpr unsigned kPerGroup = K::kGroupM * kTilesN;
    const unsigned first = block / kPerGroup * K::kGroupM;
    const unsigned size = min(tiles_m - first, static_cast<unsigned>(K::kGroupM));
    const unsigned in_group = block % kPerGroup;
    Place at;
    at.block = block;
    at.blocks = blocks;
    at.m0 = static_cast<int>((first + in_group % size) * K::kTileM);
    at.tile_n = static_cast<int>(in_group / size);
    at.n0 = at.tile_n * K::kTileN;
    at.begin = 0;
    at.end = kSteps;
    return at;
  }

  // Row sums that operands depend on, then what operands use of them, for each row of the tile.
  static __device__ __forceinline__ void prepare_rows(Row* rows, float* sums, const Args& args,
                                                      const Place& at, int m_end) {
    static_for<K::kPasses>([&](auto p) {
      using Pass = typename K::template Pass<decltype(p)::value>;
      constexpr int V = 16 / static_cast<int>(sizeof(typename Pass::Source));
      sum_rows<Pass, V, K::kTileM, kThreads>(sums, K::kSums, args, at.m0, m_end);
    });
    if constexpr (K::kUsesRows) {
      __syncthreads();
      for (int r = threadIdx.x; r < K::kTileM; r += kThreads)
        if (at.m0 + r < m_end) rows[r] = Row::make(args, at.m0 + r, sums + r * K::kSums);
    }
    if constexpr (K::kUsesRows || K::kPasses > 0) __syncthreads();
  }

  struct Wide {
    bool a[K::kOperandsA], b[K::kOperandsB];
  };

  static __device__ __forceinline__ void issue(T* stage, const Args& args, const Row* rows,
                                               const Place& at, int m_end, int k0,
                                               const Wide& wide) {
    static_for<K::kOperandsA>([&](auto i) {
      constexpr int kI = decltype(i)::value;
      Tiles::template A<kI>::issue(stage + Tiles::template a_offset<kI>(), args, rows, at.m0, k0,
                                   m_end, K::kExtentK, wide.a[kI]);
    });
    static_for<K::kOperandsB>([&](auto i) {
      constexpr int kI = decltype(i)::value;
      const NoRow none;
      T* tile = stage + Tiles::template b_offset<kI>();
      if constexpr (Tiles::template kTransposed<kI>)
        Tiles::template B<kI>::issue(tile, args, &none, at.n0, k0, K::kExtentN, K::kExtentK,
                                     wide.b[kI]);
      else
        Tiles::template B<kI>::issue(tile, args, &none, k0, at.n0, K::kExtentK, K::kExtentN,
                                     wide.b[kI]);
    });
  }

  template <class Sums>
  static __device__ __forceinline__ void finish(T* stage, const Args& args, const Row* rows,
                                                const Place& at, int m_end, int k0, Sums& sums) {
    static_for<K::kOperandsA>([&](auto i) {
      constexpr int kI = decltype(i)::value;
      T* tile = stage + Tiles::template a_offset<kI>();
      if constexpr (kI == 0) {
        Tiles::template A<kI>::finish(tile, args, rows, at.m0, k0, m_end, K::kExtentK, sums);
      } else {
        NoSums none;
        Tiles::template A<kI>::finish(tile, args, rows, at.m0, k0, m_end, K::kExtentK, none);
      }
    });
    static_for<K::kOperandsB>([&](auto i) {
      constexpr int kI = decltype(i)::value;
      const NoRow row;
      NoSums none;
      T* tile = stage + Tiles::template b_offset<kI>();
      if constexpr (Tiles::template kTransposed<kI>)
        Tiles::template B<kI>::finish(tile, args, &row, at.n0, k0, K::kExtentN, K::kExtentK, none);
      else
        Tiles::template B<kI>::finish(tile, args, &row, k0, at.n0, K::kExtentK, K::kExtentN, none);
    });
  }

  template <class Sums>
  static __device__ __forceinline__ void loop(Tile& tile, Sums& sums, T* stages, const Args& args,
                                              const Row* rows, const Place& at, int m_end) {
    Wide wide;
    static_for<K::kOperandsA>([&](auto i) {
      wide.a[decltype(i)::value] =
          aligned(K::template OperandA<decltype(i)::value>::source(args), 16);
    });
    static_for<K::kOperandsB>([&](auto i) {
      wide.b[decltype(i)::value] =
          aligned(K::template OperandB<decltype(i)::value>::source(args), 16);
    });
    int fill = 0;  // the stage to be filled next, and the one to be read
    auto advance = [](int& stage) { stage = stage + 1 == K::kStages ? 0 : stage + 1; };
#pragma unroll 1
    for (int s = 0; s < K::kStages - 1; ++s) {
      const int step = at.begin + s;
      if (step < at.end)
        issue(stages + fill * Tiles::kElements, args, rows, at, m_end, step * K::kTileK, wide);
      cp_async_commit();
      advance(fill);
    }
    int read = 0;
    for (int step = at.begin; step < at.end; ++step) {
      T* stage = stages + read * Tiles::kElements;
      cp_async_wait<K::kStages - 2>();
      finish(stage, args, rows, at, m_end, step * K::kTileK, sums);
      // All chunks of this step are there, and everyone is done with the step before, whose
      // stage is the next to be filled.
      __syncthreads();
      const int next = step + K::kStages - 1;
      if (next < at.end)
        issue(stages + fill * Tiles::kElements, args, rows, at, m_end, next * K::kTileK, wide);
      cp_async_commit();
      tile.template multiply<Tiles>(stage);
      advance(fill);
      advance(read);
    }
    cp_async_wait<0>();
  }

  // Leaves this block's state in the workspace and, in the last block of the tile, takes all
  // of them back in order. False in the other blocks. A tile has `parts`, of which this block's is
  // number `part`; slot(i): where in the workspace number i lies.
  template <class Slot>
  static __device__ __forceinline__ bool merge_parts(Tile& tile, float* sums, const Args& args,
                                                     const Place& at, int parts, int part,
                                                     const Slot& slot) {
    float* mine = args.partials + slot(part) * kPartial;
#pragma unroll
    for (int p = 0; p < K::kProducts; ++p)
#pragma unroll
      for (int q = 0; q < Tile::kQuads; ++q) {
        const float(&d)[4] = tile.d[p][q];
        reinterpret_cast<float4*>(mine)[(p * Tile::kQuads + q) * kThreads + threadIdx.x] =
            make_float4(d[0], d[1], d[2], d[3]);
      }
    if constexpr (Stats::kCount > 0) {
      for (int i = threadIdx.x; i < K::kTileM * Stats::kCount; i += kThreads)
        mine[kAccumulators + i] =
            sums[i / Stats::kCount * K::kSums + Stats::kFirst + i % Stats::kCount];
    }
    if (!last_to_arrive(args.counters + at.block, parts)) return false;

#pragma unroll
    for (int p = 0; p < K::kProducts; ++p)
#pragma unroll
      for (int q = 0; q < Tile::kQuads; ++q)
#pragma unroll
        for (int j = 0; j < 4; ++j) tile.d[p][q][j] = 0.f;
    for (int i = 0; i < parts; ++i) {
      const float* other = args.partials + slot(i) * kPartial;
#pragma unroll
      for (int p = 0; p < K::kProducts; ++p)
#pragma unroll
        for (int q = 0; q < Tile::kQuads; ++q) {
          float(&d)[4] = tile.d[p][q];
          const float4 v = __ldcg(reinterpret_cast<const float4*>(other) +
                                  (p * Tile::kQuads + q) * kThreads + threadIdx.x);
          d[0] += v.x;
          d[1] += v.y;
          d[2] += v.z;
          d[3] += v.w;
        }
      if constexpr (Stats::kCount > 0) {
        for (int j = threadIdx.x; j < K::kTileM * Stats::kCount; j += kThreads) {
          float& s = sums[j / Stats::kCount * K::kSums + Stats::kFirst + j % Stats::kCount];
          s = (i == 0 ? 0.f : s) + __ldcg(other + kAccumulators + j);
        }
      }
    }
    __syncthreads();
    return true;
  }

  // The epilogue's value of run element (r, c, j), with one argument a product.
  template <class E>
  static __device__ __forceinline__ float apply(const Args& args, const typename E::Row& row,
                                                const Tile& tile, int r, int c, int j, int m,
                                                int n) {
    if constexpr (K::kProducts == 1)
      return E::apply(args, row, tile.value(0, r, c, j), m, n);
    else if constexpr (K::kProducts == 2)
      return E::apply(args, row, tile.value(0, r, c, j), tile.value(1, r, c, j), m, n);
    else
      return E::apply(args, row, tile.value(0, r, c, j), tile.value(1, r, c, j),
                      tile.value(2, r, c, j), m, n);
  }

  template <class E>
  static __device__ __forceinline__ void write(const Tile& tile, const float* sums,
                                               const Args& args, const Place& at, int m_end) {
#pragma unroll
    for (int r = 0; r < Tile::kRowsHeld; ++r) {
      const int m = at.m0 + Tile::row(r);
      if (m >= m_end) continue;
      const auto row = E::row(args, m, sums + Tile::row(r) * K::kSums);
#pragma unroll
      for (int c = 0; c < Tile::kRunsHeld; ++c) {
        const int n = at.n0 + Tile::column(c);
        const int valid = K::kExtentN - n;
        if (valid <= 0) continue;
        float y[Tile::kRun];
#pragma unroll
        for (int j = 0; j < Tile::kRun; ++j)
          y[j] = j < valid ? apply<E>(args, row, tile, r, c, j, m, n + j) : 0.f;
        auto* target = E::target(args) + m * E::kTargetRowStride + n * E::kTargetColumnStride;
        store_run<typename E::Target, Tile::kRun>(target, y, valid, E::kTargetColumnStride);
      }
    }
  }

  // This block's rows and steps of an elementwise output along {row, k}.
  template <class Output>
  static __device__ __forceinline__ void write_side(const float* sums, const Args& args,
                                                    const Place& at, int m_end) {
    constexpr int V = 16 / static_cast<int>(sizeof(typename Output::Source));
    const int k_end = min(K::kExtentK, at.end * K::kTileK);
    const int k_begin = at.begin * K::kTileK;
    const int runs = (k_end - k_begin + V - 1) / V;
    for (int i = threadIdx.x; i < K::kTileM * runs; i += kThreads) {
      const int r = i / runs;
      const int m = at.m0 + r;
      const int k = k_begin + i % runs * V;
      if (m >= m_end) continue;
      const int valid = K::kExtentK - k;
      const auto row = Output::Row::make(args, m, sums + r * K::kSums);
      const auto x = load_source<Output, V>(args, m, k, valid);
      const auto others = Output::template load<V>(args, m, k, valid);
      float y[V];
#pragma unroll
      for (int j = 0; j < V; ++j) y[j] = Output::apply(row, others, x.at(j), j);
      auto* target =
          Output::target(args) + m * Output::kTargetRowStride + k * Output::kTargetColumnStride;
      store_run<typename Output::Target, V>(target, y, valid, Output::kTargetColumnStride);
    }
  }

  // Multiplies the steps of `at` and, once the tile is complete, writes its outputs. merge(tile,
  // sums): brings the parts of a tile together; false in blocks that are done with it then.
  template <class Merge>
  static __device__ __forceinline__ void compute(const Args& args, const Place& at, int m_end,
                                                 const Merge& merge) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* stages = reinterpret_cast<T*>(shared);
    Row* rows = reinterpret_cast<Row*>(shared + kRowsAt);
    float* sums = reinterpret_cast<float*>(shared + kSumsAt);
    prepare_rows(rows, sums, args, at, m_end);
    Tile tile;
    if constexpr (Stats::kCount > 0) {
      LoopSums<K, typename Tiles::template A<0>> loop_sums{args};
      loop(tile, loop_sums, stages, args, rows, at, m_end);
      loop_sums.store(sums);
      __syncthreads();
    } else {
      NoSums none;
      loop(tile, none, stages, args, rows, at, m_end);
    }
    if constexpr (K::kSideOutputs > 0) {
      if (at.tile_n == 0)
        static_for<K::kSideOutputs>([&](auto o) {
          write_side<typename K::template SideOutput<decltype(o)::value>>(sums, args, at, m_end);
        });
    }
    if (!merge(tile, sums)) return;
    static_for<K::kOutputs>([&](auto o) {
      write<typename K::template Epilogue<decltype(o)::value>>(tile, sums, args, at, m_end);
    });
    static_for<K::kRowOutputs>([&](auto o) {
      using Output = typename K::template RowOutput<decltype(o)::value>;
      if (at.tile_n != 0) return;
      for (int r = threadIdx.x; r < K::kTileM && at.m0 + r < m_end; r += kThreads) {
        const auto row = Output::Row::make(args, at.m0 + r, sums + r * K::kSums);
        Output::target(args)[(at.m0 + r) * Output::kTargetRowStride] =
            Element<typename Output::Target>::from_float(Output::value(row));
      }
    });
  }

  // This block's share of all tiles' steps. A tile that it does not have to itself is of several
  // blocks in a row; each leaves its part in one of its two slots, that of the tile in which
  // its share begins or the other.
  static __device__ __forceinline__ void run_stream(const Args& args) {
    const long long extent_m = K::rows(args);
    const unsigned tiles = static_cast<unsigned>((extent_m + K::kTileM - 1) / K::kTileM) * kTilesN;
    const StreamShare share(static_cast<long long>(tiles) * kSteps, K::kStream);
    const int block = static_cast<int>(blockIdx.x);
    if (block >= share.blocks) return;
    const long long end = share.begin(block + 1);
#pragma unroll 1
    for (long long step = share.begin(block); step < end;) {
      const long long first = step / kSteps * kSteps;  // of the tile
      Place at = place(extent_m, static_cast<unsigned>(step / kSteps), tiles);
      at.begin = static_cast<int>(step - first);
      at.end = static_cast<int>(min(first + kSteps, end) - first);
      compute(args, at, static_cast<int>(extent_m), [&](Tile& tile, float* sums) {
        if (at.whole()) return true;
        const int first_block = share.block_of(first);
        const int last_block = share.block_of(first + kSteps - 1);
        return merge_parts(tile, sums, args, at, last_block - first_block + 1, block - first_block,
                           [&](int part) -> long long {
                             const int other = first_block + part;
                             return 2ll * other + (share.begin(other) < first ? 1 : 0);
                           });
      });
      step = first + at.end;
      __syncthreads();  // the next tile's stages and sums lie where this one's are
    }
  }

  static __device__ __forceinline__ void run(const Args& args) {
    if constexpr (K::kStream > 0) {
      await_predecessor<K::kDependent>();
      run_stream(args);
    } else {
      run(args, blockIdx.x, gridDim.x);
    }
  }

  // As block `block` of `blocks`: several kernels may share a grid.
  static __device__ __forceinline__ void run(const Args& args, unsigned block, unsigned blocks) {
    await_predecessor<K::kDependent>();
    const long long extent_m = K::rows(args);
    Place at = place(extent_m, block, blocks);
    at.begin = min(kSteps, static_cast<int>(blockIdx.y) * kShare);
    at.end = min(kSteps, at.begin + kShare);
    compute(args, at, static_cast<int>(extent_m), [&](Tile& tile, float* sums) {
      if constexpr (K::kSplits == 1) {
        return true;
      } else {
        return merge_parts(
            tile, sums, args, at, K::kSplits, static_cast<int>(blockIdx.y),
            [&](int part) { return part * static_cast<long long>(at.blocks) + at.block; });
      }
    });
  }
};

}  // namespace tenon::device::portable
