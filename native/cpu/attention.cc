// Causal attention over packed sequences: cuts each sequence into runs of rows, attention_rows.h does the rest.
#include "attention_rows.h"

namespace agentrl::AGENTRL_ISA {

void attention(const AttentionArgs& x, Pool& pool) {
  size_t most = 0;
  for (size_t s = 0; s < x.sequences; s++) most += (x.offsets[s + 1] - x.offsets[s] + kRunRows - 1) / kRunRows;
  auto* runs = reinterpret_cast<RowRun*>(Pool::scratch(Pool::kShared, most * sizeof(RowRun) / sizeof(float)));
  size_t count = 0;
  for (size_t s = 0; s < x.sequences; s++) {
    const size_t start = x.offsets[s], end = x.offsets[s + 1];
    for (size_t row = start; row < end; row += kRunRows)
      runs[count++] = {row, lesser(kRunRows, end - row), row - start, 0};
  }
  attendRuns({x, x.q, x.k, x.v, x.out, x.lse, nullptr, 0}, runs, count, pool);
}

}  // namespace agentrl::AGENTRL_ISA
