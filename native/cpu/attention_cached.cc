// Attention over a paged KV cache (Kwon et al. 2023), a page being a block of the online softmax. Rows of one sequence
// that follow each other, as when a prompt is read, are taken together; in decoding each row is a run of its own.
#include "attention_rows.h"

namespace agentrl::AGENTRL_ISA {

void attentionCached(const AttentionCachedArgs& x, Pool& pool) {
  auto* runs = reinterpret_cast<RowRun*>(Pool::scratch(Pool::kShared, x.rows * sizeof(RowRun) / sizeof(float)));
  size_t count = 0;
  for (size_t row = 0; row < x.rows; row++) {
    const size_t position = x.positions[row], line = x.sequenceOf[row];
    if (count > 0) {
      RowRun& run = runs[count - 1];
      if (run.line == line && run.position + run.rows == position && run.rows < kRunRows) {
        run.rows++;
        continue;
      }
    }
    runs[count++] = {row, 1, position, line};
  }
  attendRuns({x, x.q, x.kCache, x.vCache, x.out, nullptr, x.pageTable, x.pageTableStride}, runs, count, pool);
}

}  // namespace agentrl::AGENTRL_ISA
