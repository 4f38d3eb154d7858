// Matrix products of operands that lie in the first-level cache, as attention has them: nothing is packed, nothing is
// shared out among threads. Each element is the same chain of fused multiply-adds as in matmul.
#pragma once

#include <utility>

#include "gemm_micro.h"

namespace agentrl::AGENTRL_ISA {

using SmallTile = void (*)(const Tile&);

template <AOrder Order, bool Tail, size_t... Rows>
SmallTile smallTileOf(size_t rows, std::index_sequence<Rows...>) {
  static constexpr SmallTile kTiles[] = {tile<static_cast<int>(Rows) + 1, kTileVectors, Order, Tail>...};
  return kTiles[rows - 1];
}

/**
 * c[rows, columns] = op(a) b, or c + op(a) b when `accumulate`: a, b, c, their strides, columns and k as in Tile;
 * op(a) is a[rows, k] (AOrder::rows), or the transpose of a[k, rows] (AOrder::columns).
 */
template <AOrder Order>
void smallMatmul(const Tile& whole, size_t rows) {
  constexpr auto kAll = std::make_index_sequence<kTileRows>{};
  const size_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (size_t i = 0; i < tiles; i++) {
    const size_t row = rows * i / tiles;
    const size_t height = rows * (i + 1) / tiles - row;
    Tile part = whole;
    part.a += Order == AOrder::rows ? row * whole.aStride : row;
    part.c += row * whole.cStride;
    for (size_t column = 0; column < whole.columns; column += kPanel) {
      part.columns = whole.columns - column < kPanel ? whole.columns - column : kPanel;
      if (part.columns == kPanel)
        smallTileOf<Order, false>(height, kAll)(part);
      else
        smallTileOf<Order, true>(height, kAll)(part);
      part.b += kPanel;
      part.c += kPanel;
    }
  }
}

}  // namespace agentrl::AGENTRL_ISA
