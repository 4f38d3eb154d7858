// Matrix products in all layouts. Blocks of b (and of a, when it is stored by columns) are packed so that the innermost
// loop reads memory in order (Goto & van de Geijn 2008); with few rows, as in decoding, b is read where it lies.
// Threads share out tiles of c; k is never split between them.
#include "gemm.h"

#include <type_traits>
#include <utility>

#include "gemm_pack.h"

namespace agentrl::AGENTRL_ISA {

namespace {

// Steps of k per block: a block of a tile's rows of a stays in the first-level cache.
constexpr size_t kBlockK = 384;
// Columns per packed block of b: with kBlockK, about half of a 2 MiB second-level cache.
constexpr size_t kBlockN = 512;
// With at most so many rows, packing b costs more than it brings.
constexpr size_t kDirectRows = 64;
// Multiply-adds that are worth a thread of their own (some 5 microseconds).
constexpr size_t kThreadWork = 400 * 1000;

constexpr size_t divideUp(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t least(size_t a, size_t b) { return a < b ? a : b; }

template <typename B>
using TileFunction = void (*)(const TileOf<B>&);

template <typename B>
struct TileFunctions {
  TileFunction<B> whole, tail;
};

/** of[rows - 1]: tiles of up to Most rows. */
template <typename B, int Vectors, AOrder Order, int Most>
struct Tiles {
  TileFunctions<B> of[Most];

  template <size_t... Rows>
  static constexpr Tiles make(std::index_sequence<Rows...>) {
    return {{{tile<static_cast<int>(Rows) + 1, Vectors, Order, false, B>,
              tile<static_cast<int>(Rows) + 1, Vectors, Order, true, B>}...}};
  }
};
template <typename B, int Vectors, AOrder Order, int Most = kTileRows>
constexpr auto kTiles = Tiles<B, Vectors, Order, Most>::make(std::make_index_sequence<Most>{});

/** Tiles of one width: of[rows - 1]. */
template <typename B>
struct Width {
  const TileFunctions<B>* of;
  size_t vectors;
};

/**
 * Tiles for few rows, where b is read in place: wider ones, since a tile of the usual width would have too few independent
 * chains to fill the multipliers' pipelines.
 */
template <typename B, AOrder Order>
Width<B> directTiles(size_t rows, size_t columns) {
#if defined(AGENTRL_ISA_AVX512)
  if (rows <= 3 && columns >= 8 * kLanes) return {kTiles<B, 8, Order, 3>.of, 8};
  if (rows <= 6) return {kTiles<B, 4, Order, 6>.of, 4};
#elif defined(AGENTRL_ISA_AVX2) || defined(AGENTRL_ISA_NEON)
  if (rows == 1 && columns >= 4 * kLanes) return {kTiles<B, 4, Order, 1>.of, 4};
  if (rows <= 3) return {kTiles<B, 2, Order, 3>.of, 2};
#endif
  return {kTiles<B, kTileVectors, Order>.of, kTileVectors};
}

/** Rows and columns of c that one task computes. */
struct Block {
  size_t row, rows, column, columns;
};

#if defined(AGENTRL_ISA_AVX512) || defined(AGENTRL_ISA_AVX2)
// Rows that are computed one at a time against b stored by columns: with more, the lanes of computeTransposed fill up.
constexpr size_t kSingleRows = 2;

/** c[j] += Σ a[p] b[j,p]: blocks of b are transposed in registers and used at once. */
template <typename B>
void computeRow(const float* a, const B* b, size_t ldb, float* c, size_t columns, size_t k) {
  constexpr size_t kGroups = 4;  // of 8 columns: so many independent chains
  const size_t wholeK = k / 8 * 8, wholeColumns = columns / (8 * kGroups) * (8 * kGroups);
  for (size_t j = 0; j < wholeColumns; j += 8 * kGroups) {
    __m256 sums[kGroups];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; g++) sums[g] = _mm256_loadu_ps(c + j + 8 * g);
    for (size_t p = 0; p < wholeK; p += 8) {
#pragma GCC unroll 4
      for (size_t g = 0; g < kGroups; g++) {
        __m256 steps[8];
        loadTransposed(b + (j + 8 * g) * ldb + p, ldb, steps);
        for (size_t q = 0; q < 8; q++) sums[g] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + p + q), steps[q], sums[g]);
      }
    }
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; g++) _mm256_storeu_ps(c + j + 8 * g, sums[g]);
  }
  for (size_t j = 0; j < columns; j++)
    for (size_t p = j < wholeColumns ? wholeK : 0; p < k; p++) c[j] = fma1(a[p], number(b[j * ldb + p]), c[j]);
}

template <typename B>
void computeRows(const Gemm& x, const B* b, const Block& block) {
  for (size_t i = block.row; i < block.row + block.rows; i++) {
    float* c = x.c + i * x.ldc + block.column;
    for (size_t j = 0; j < block.columns; j++) {
      const float bias = x.bias != nullptr ? x.bias[block.column + j] : 0.0f;
      c[j] = !x.accumulate ? bias : x.bias != nullptr ? c[j] + bias : c[j];
    }
    computeRow(x.a + i * x.lda, b + block.column * x.ldb, x.ldb, c, block.columns, x.k);
  }
}
#else
constexpr size_t kSingleRows = 0;
template <typename B>
void computeRows(const Gemm&, const B*, const Block&) {}
#endif

/** The tile function for so many columns of a tile of that width. */
template <typename B>
TileFunction<B> functionFor(const TileFunctions<B>& functions, size_t columns, size_t width) {
  return columns == width ? functions.whole : functions.tail;
}

/**
 * Few rows of a against b stored by columns: cᵀ = b aᵀ. The lanes are rows of c, padded to whole vectors, and b, much the
 * larger operand, is read once where it lies; packing it would cost as much as multiplying.
 */
template <typename B>
void computeTransposed(const Gemm& x, const B* b, const Block& block) {
  // Columns of c whose transposed sums are in memory at once; a multiple of all heights that tiles have here.
  constexpr size_t kGroup = 4 * kTileRows;
  const size_t lanes = divideUp(block.rows, kLanes) * kLanes;
  float* a = Pool::scratch(Pool::kPackA, lanes * x.k);
  float* sums = Pool::scratch(Pool::kTile, kGroup * lanes);
  packTransposed(x.a + block.row * x.lda, x.lda, block.rows, x.k, a, lanes);
  const TileFunctions<float>* tiles =
      lanes == kLanes ? kTiles<float, 1, AOrder::rows>.of : kTiles<float, kTileVectors, AOrder::rows>.of;
  for (size_t j0 = 0; j0 < block.columns; j0 += kGroup) {
    const size_t group = least(kGroup, block.columns - j0), column = block.column + j0;
    float* c = x.c + block.row * x.ldc + column;
    for (size_t j = 0; j < group; j++)
      for (size_t i = 0; i < lanes; i++) {
        const float bias = x.bias != nullptr ? x.bias[column + j] : 0.0f;
        const float old = x.accumulate && i < block.rows ? c[i * x.ldc + j] : 0.0f;
        sums[j * lanes + i] = !x.accumulate ? bias : x.bias != nullptr ? old + bias : old;
      }
    for (size_t j = 0; j < group; j += kTileRows) {
      const size_t rows = least(kTileRows, group - j);
      const B* from = b + (column + j) * x.ldb;
      float* to = sums + j * lanes;
      if constexpr (std::is_same_v<B, float>) {
        tiles[rows - 1].whole({from, x.ldb, a, lanes, to, lanes, nullptr, true, x.k, lanes});
      } else {
        // Rows of b are the tile's broadcast operand here, which it takes as float32.
        float* wide = Pool::scratch(Pool::kPackB, kTileRows * kBlockK);
        for (size_t k0 = 0; k0 < x.k; k0 += kBlockK) {
          const size_t k = least(kBlockK, x.k - k0);
          packCopied(from + k0, x.ldb, k, rows, wide, k);
          tiles[rows - 1].whole({wide, k, a + k0 * lanes, lanes, to, lanes, nullptr, true, k, lanes});
        }
      }
    }
    transpose(sums, lanes, group, block.rows, c, x.ldc);
  }
}

/** Few rows of a against b stored by rows, which is read where it lies. */
template <typename B, AOrder Order>
void computeDirect(const Gemm& x, const B* b, const Block& block) {
  const size_t rowTiles = divideUp(block.rows, kTileRows);
  const Width<B> tiles = rowTiles == 1 ? directTiles<B, Order>(block.rows, block.columns)
                                       : Width<B>{kTiles<B, kTileVectors, Order>.of, kTileVectors};
  const size_t width = tiles.vectors * kLanes;
  const size_t kBlocks = x.k == 0 ? 1 : divideUp(x.k, kBlockK);
  for (size_t kb = 0; kb < kBlocks; kb++) {
    const size_t k0 = x.k * kb / kBlocks, k = x.k * (kb + 1) / kBlocks - k0;
    for (size_t n0 = 0; n0 < block.columns; n0 += kBlockN) {
      const size_t end = block.column + least(n0 + kBlockN, block.columns);
      for (size_t i = 0; i < rowTiles; i++) {
        const size_t row = block.row + block.rows * i / rowTiles;
        const size_t rows = block.row + block.rows * (i + 1) / rowTiles - row;
        TileOf<B> t;
        t.a = Order == AOrder::rows ? x.a + row * x.lda + k0 : x.a + k0 * x.lda + row;
        t.aStride = x.lda;
        t.bStride = x.ldb;
        t.cStride = x.ldc;
        t.accumulate = x.accumulate || kb > 0;
        t.k = k;
        for (size_t column = block.column + n0; column < end; column += width) {
          t.b = b + k0 * x.ldb + column;
          t.c = x.c + row * x.ldc + column;
          t.bias = kb == 0 && x.bias != nullptr ? x.bias + column : nullptr;
          t.columns = least(width, end - column);
          functionFor(tiles.of[rows - 1], t.columns, width)(t);
        }
      }
    }
  }
}

/** Many rows: blocks of b are packed, as float32, and used by all of them. */
template <typename B, AOrder Order>
void computePacked(const Gemm& x, const B* b, const Block& block) {
  // As few row tiles as there can be, of even height: 16 rows are two tiles of 8, not 14 and 2.
  const size_t rowTiles = divideUp(block.rows, kTileRows);
  const size_t kBlocks = x.k == 0 ? 1 : divideUp(x.k, kBlockK);
  const bool packA = Order == AOrder::columns && block.columns > kPanel;
  for (size_t kb = 0; kb < kBlocks; kb++) {
    const size_t k0 = x.k * kb / kBlocks, k = x.k * (kb + 1) / kBlocks - k0;
    for (size_t n0 = 0; n0 < block.columns; n0 += kBlockN) {
      const size_t columns = least(kBlockN, block.columns - n0);
      const size_t panels = divideUp(columns, kPanel);
      const size_t column0 = block.column + n0;
      float* packed = Pool::scratch(Pool::kPackB, panels * kPanel * k);
      for (size_t j = 0; j < panels; j++) {
        const size_t column = column0 + j * kPanel;
        const size_t inPanel = least(kPanel, columns - j * kPanel);
        float* to = packed + j * kPanel * k;
        if (x.layout == Layout::nt)
          packTransposed(b + column * x.ldb + k0, x.ldb, inPanel, k, to, kPanel);
        else
          packCopied(b + k0 * x.ldb + column, x.ldb, inPanel, k, to, kPanel);
      }
      for (size_t i = 0; i < rowTiles; i++) {
        const size_t row = block.row + block.rows * i / rowTiles;
        const size_t rows = block.row + block.rows * (i + 1) / rowTiles - row;
        Tile t;
        t.a = Order == AOrder::rows ? x.a + row * x.lda + k0 : x.a + k0 * x.lda + row;
        t.aStride = x.lda;
        if (packA) {
          float* to = Pool::scratch(Pool::kPackA, kTileRows * kBlockK);
          packCopied(t.a, x.lda, rows, k, to, rows);
          t.a = to;
          t.aStride = rows;
        }
        t.bStride = kPanel;
        t.cStride = x.ldc;
        t.accumulate = x.accumulate || kb > 0;
        t.k = k;
        const TileFunctions<float>& functions = kTiles<float, kTileVectors, Order>.of[rows - 1];
        for (size_t j = 0; j < panels; j++) {
          const size_t column = column0 + j * kPanel;
          t.b = packed + j * kPanel * k;
          t.c = x.c + row * x.ldc + column;
          t.bias = kb == 0 && x.bias != nullptr ? x.bias + column : nullptr;
          t.columns = least(kPanel, columns - j * kPanel);
          functionFor(functions, t.columns, kPanel)(t);
        }
      }
    }
  }
}

template <typename B>
void computeBlock(const Gemm& x, const B* b, const Block& block) {
  if (x.layout == Layout::nt) {
    if (block.rows <= kSingleRows) return computeRows(x, b, block);
    if (block.rows <= kPanel) return computeTransposed(x, b, block);
    return computePacked<B, AOrder::rows>(x, b, block);
  }
  const bool byRows = x.layout == Layout::nn;
  // Numbers that are to be widened are packed where several tiles of rows use them.
  constexpr bool kWide = std::is_same_v<B, float>;
  if (block.rows <= (kWide ? kDirectRows : static_cast<size_t>(kTileRows))) {
    if (byRows) return computeDirect<B, AOrder::rows>(x, b, block);
    if constexpr (kWide) return computeDirect<B, AOrder::columns>(x, b, block);
  }
  if (byRows) return computePacked<B, AOrder::rows>(x, b, block);
  computePacked<B, AOrder::columns>(x, b, block);
}

template <typename B>
void share(const Gemm& x, const B* b, Pool& pool) {
  const size_t work = x.m * x.n * (x.k + 1);
  const size_t threads = static_cast<size_t>(pool.threads());
  if (threads <= 1 || work < 2 * kThreadWork) return computeBlock(x, b, {0, x.m, 0, x.n});

  // Tasks: a few per thread. Cut the longer side, in whole tiles; with few rows cut columns only, so that b is read
  // once.
  const size_t wanted = least(work / kThreadWork, threads * (work > 64 * kThreadWork ? 4 : 1));
  const size_t rowTiles = divideUp(x.m, kTileRows), panels = divideUp(x.n, kPanel);
  const bool cutRows = x.m > kDirectRows && rowTiles * kTileRows >= panels * kPanel;
  const size_t units = cutRows ? rowTiles : panels;
  const size_t tasks = least(wanted, units);
  pool.parallelFor(tasks, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
      const size_t from = units * i / tasks, to = units * (i + 1) / tasks;
      if (cutRows)
        computeBlock(x, b, {from * kTileRows, least(to * kTileRows, x.m) - from * kTileRows, 0, x.n});
      else
        computeBlock(x, b, {0, x.m, from * kPanel, least(to * kPanel, x.n) - from * kPanel});
    }
  });
}

}  // namespace

void gemm(const Gemm& x, Pool& pool) {
  if (x.m == 0 || x.n == 0) return;
  withType(x.b, [&](const auto* b) { share(x, b, pool); });
}

void matmul(const MatmulArgs& x, Pool& pool) {
  const size_t lda = x.layout == Layout::tn ? x.m : x.k;
  const size_t ldb = x.layout == Layout::nt ? x.k : x.n;
  gemm({x.layout, x.a, lda, x.b, ldb, x.out, x.n, x.bias, x.accumulate, x.m, x.n, x.k}, pool);
}

}  // namespace agentrl::AGENTRL_ISA
