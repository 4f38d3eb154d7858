// Matrix products in all layouts. Blocks of b (and of a, when it is stored by columns) are packed so that the innermost
// loop reads memory in order (Goto & van de Geijn 2008); with few rows, as in decoding, b is read where it lies.
// Threads share out tiles of c; k is never split between them.
#include "gemm.h"
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

using TileFunction = void (*)(const Tile&);

struct TileFunctions {
  TileFunction byRows[2], byColumns[2];  // [0] whole, [1] with a tail of columns
};

template <int Rows, int Vectors>
constexpr TileFunctions functions() {
  return {{tile<Rows, Vectors, AOrder::rows, false>, tile<Rows, Vectors, AOrder::rows, true>},
          {tile<Rows, Vectors, AOrder::columns, false>, tile<Rows, Vectors, AOrder::columns, true>}};
}

// kTiles[rows - 1]: tiles as wide as a packed panel.
constexpr TileFunctions kTiles[kTileRows] = {
    functions<1, kTileVectors>(),  functions<2, kTileVectors>(),  functions<3, kTileVectors>(),
    functions<4, kTileVectors>(),
#if !defined(AGENTRL_ISA_PLAIN)
    functions<5, kTileVectors>(),  functions<6, kTileVectors>(),
#endif
#if defined(AGENTRL_ISA_AVX512)
    functions<7, kTileVectors>(),  functions<8, kTileVectors>(),  functions<9, kTileVectors>(),
    functions<10, kTileVectors>(), functions<11, kTileVectors>(), functions<12, kTileVectors>(),
    functions<13, kTileVectors>(), functions<14, kTileVectors>(),
#endif
};

// Wider tiles for few rows, where b is read in place: a tile of the usual width would have too few independent chains to
// fill the multipliers' pipelines.
struct DirectTiles {
  const TileFunctions* byRows;  // [rows - 1]
  size_t vectors;
};
#if defined(AGENTRL_ISA_AVX512)
constexpr TileFunctions kFour[] = {functions<1, 4>(), functions<2, 4>(), functions<3, 4>(),
                                   functions<4, 4>(), functions<5, 4>(), functions<6, 4>()};
constexpr TileFunctions kEight[] = {functions<1, 8>(), functions<2, 8>(), functions<3, 8>()};
DirectTiles directTiles(size_t rows, size_t columns) {
  if (rows <= 3 && columns >= 8 * kLanes) return {kEight, 8};
  if (rows <= 6) return {kFour, 4};
  return {kTiles, kTileVectors};
}
#elif defined(AGENTRL_ISA_AVX2) || defined(AGENTRL_ISA_NEON)
constexpr TileFunctions kTwo[] = {functions<1, 2>(), functions<2, 2>(), functions<3, 2>()};
constexpr TileFunctions kFour[] = {functions<1, 4>()};
DirectTiles directTiles(size_t rows, size_t columns) {
  if (rows == 1 && columns >= 4 * kLanes) return {kFour, 4};
  if (rows <= 3) return {kTwo, 2};
  return {kTiles, kTileVectors};
}
#else
DirectTiles directTiles(size_t, size_t) { return {kTiles, kTileVectors}; }
#endif

// One vector wide, for products computed the other way round.
#if defined(AGENTRL_ISA_AVX512)
constexpr TileFunctions kNarrow[kTileRows] = {
    functions<1, 1>(), functions<2, 1>(),  functions<3, 1>(),  functions<4, 1>(),  functions<5, 1>(),
    functions<6, 1>(), functions<7, 1>(),  functions<8, 1>(),  functions<9, 1>(),  functions<10, 1>(),
    functions<11, 1>(), functions<12, 1>(), functions<13, 1>(), functions<14, 1>(),
};
#else
constexpr const TileFunctions (&kNarrow)[kTileRows] = kTiles;
#endif

/** Rows and columns of c that one task computes. */
struct Block {
  size_t row, rows, column, columns;
};

#if defined(AGENTRL_ISA_AVX512) || defined(AGENTRL_ISA_AVX2)
// Rows that are computed one at a time against b stored by columns: with more, the lanes of computeTransposed fill up.
constexpr size_t kSingleRows = 2;

/** c[j] += Σ a[p] b[j,p]: blocks of b are transposed in registers and used at once. */
void computeRow(const float* a, const float* b, size_t ldb, float* c, size_t columns, size_t k) {
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
    for (size_t p = j < wholeColumns ? wholeK : 0; p < k; p++) c[j] = fma1(a[p], b[j * ldb + p], c[j]);
}

void computeRows(const Gemm& x, const Block& block) {
  for (size_t i = block.row; i < block.row + block.rows; i++) {
    float* c = x.c + i * x.ldc + block.column;
    for (size_t j = 0; j < block.columns; j++) {
      const float bias = x.bias != nullptr ? x.bias[block.column + j] : 0.0f;
      c[j] = !x.accumulate ? bias : x.bias != nullptr ? c[j] + bias : c[j];
    }
    computeRow(x.a + i * x.lda, x.b + block.column * x.ldb, x.ldb, c, block.columns, x.k);
  }
}
#else
constexpr size_t kSingleRows = 0;
void computeRows(const Gemm&, const Block&) {}
#endif

/**
 * Few rows of a against b stored by columns: cᵀ = b aᵀ. The lanes are rows of c, padded to whole vectors, and b, much the
 * larger operand, is read once where it lies; packing it would cost as much as multiplying.
 */
void computeTransposed(const Gemm& x, const Block& block) {
  // Columns of c whose transposed sums are in memory at once; a multiple of all heights that tiles have here.
  constexpr size_t kGroup = 4 * kTileRows;
  const size_t lanes = divideUp(block.rows, kLanes) * kLanes;
  float* a = Pool::scratch(Pool::kPackA, lanes * x.k);
  float* sums = Pool::scratch(Pool::kTile, kGroup * lanes);
  packTransposed(x.a + block.row * x.lda, x.lda, block.rows, x.k, a, lanes);
  const TileFunctions* tiles = lanes == kLanes ? kNarrow : kTiles;
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
      const float* b = x.b + (column + j) * x.ldb;
      tiles[rows - 1].byRows[0]({b, x.ldb, a, lanes, sums + j * lanes, lanes, nullptr, true, x.k, lanes});
    }
    transpose(sums, lanes, group, block.rows, c, x.ldc);
  }
}

void computeBlock(const Gemm& x, const Block& block) {
  if (x.layout == Layout::nt && block.rows <= kSingleRows) return computeRows(x, block);
  if (x.layout == Layout::nt && block.rows <= kPanel) return computeTransposed(x, block);
  const bool byRows = x.layout != Layout::tn;
  // As few row tiles as there can be, of even height: 16 rows are two tiles of 8, not 14 and 2.
  const size_t rowTiles = divideUp(block.rows, kTileRows);
  const size_t kBlocks = x.k == 0 ? 1 : divideUp(x.k, kBlockK);
  const bool direct = x.layout != Layout::nt && block.rows <= kDirectRows;
  const DirectTiles chosen =
      direct && rowTiles == 1 ? directTiles(block.rows, block.columns) : DirectTiles{kTiles, kTileVectors};
  const TileFunctions* tiles = chosen.byRows;
  const size_t width = chosen.vectors * kLanes;
  const bool packA = !byRows && block.columns > width;

  for (size_t kb = 0; kb < kBlocks; kb++) {
    const size_t k0 = x.k * kb / kBlocks, k = x.k * (kb + 1) / kBlocks - k0;
    const bool first = kb == 0;
    for (size_t n0 = 0; n0 < block.columns; n0 += kBlockN) {
      const size_t columns = least(kBlockN, block.columns - n0);
      const size_t panels = divideUp(columns, width);
      const size_t column0 = block.column + n0;

      float* packed = nullptr;
      if (!direct) {
        packed = Pool::scratch(Pool::kPackB, panels * kPanel * k);
        for (size_t j = 0; j < panels; j++) {
          const size_t column = column0 + j * kPanel;
          const size_t inPanel = least(kPanel, columns - j * kPanel);
          float* to = packed + j * kPanel * k;
          if (x.layout == Layout::nt)
            packTransposed(x.b + column * x.ldb + k0, x.ldb, inPanel, k, to, kPanel);
          else
            packCopied(x.b + k0 * x.ldb + column, x.ldb, inPanel, k, to, kPanel);
        }
      }

      for (size_t i = 0; i < rowTiles; i++) {
        const size_t row = block.row + block.rows * i / rowTiles;
        const size_t rows = block.row + block.rows * (i + 1) / rowTiles - row;
        Tile t;
        t.k = k;
        if (byRows) {
          t.a = x.a + row * x.lda + k0;
          t.aStride = x.lda;
        } else if (packA) {
          float* to = Pool::scratch(Pool::kPackA, kTileRows * kBlockK);
          packCopied(x.a + k0 * x.lda + row, x.lda, rows, k, to, rows);
          t.a = to;
          t.aStride = rows;
        } else {
          t.a = x.a + k0 * x.lda + row;
          t.aStride = x.lda;
        }
        t.cStride = x.ldc;
        t.accumulate = x.accumulate || !first;
        t.bStride = direct ? x.ldb : kPanel;
        const TileFunctions& functions = tiles[rows - 1];
        const TileFunction* run = byRows ? functions.byRows : functions.byColumns;
        for (size_t j = 0; j < panels; j++) {
          const size_t column = column0 + j * width;
          t.b = direct ? x.b + k0 * x.ldb + column : packed + j * kPanel * k;
          t.c = x.c + row * x.ldc + column;
          t.bias = first && x.bias != nullptr ? x.bias + column : nullptr;
          t.columns = least(width, columns - j * width);
          run[t.columns == width ? 0 : 1](t);
        }
      }
    }
  }
}

}  // namespace

void gemm(const Gemm& x, Pool& pool) {
  if (x.m == 0 || x.n == 0) return;
  const size_t work = x.m * x.n * (x.k + 1);
  const size_t threads = static_cast<size_t>(pool.threads());
  if (threads <= 1 || work < 2 * kThreadWork) return computeBlock(x, {0, x.m, 0, x.n});

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
        computeBlock(x, {from * kTileRows, least(to * kTileRows, x.m) - from * kTileRows, 0, x.n});
      else
        computeBlock(x, {0, x.m, from * kPanel, least(to * kPanel, x.n) - from * kPanel});
    }
  });
}

void matmul(const MatmulArgs& x, Pool& pool) {
  const size_t lda = x.layout == Layout::tn ? x.m : x.k;
  const size_t ldb = x.layout == Layout::nt ? x.k : x.n;
  gemm({x.layout, x.a, lda, x.b, ldb, x.out, x.n, x.bias, x.accumulate, x.m, x.n, x.k}, pool);
}

}  // namespace agentrl::AGENTRL_ISA
