// Bindings of the head and the optimizer; conventions as in bindings.cc.
#include "args.h"
#include "kernels.h"

namespace agentrl {

namespace {

/** hidden and weight (of any type), then (at the end of the call) tied, rows, dim, vocab. */
struct HeadTensors {
  Span<float> hidden;
  Numbers weight;
};

HeadTensors headTensors(Args& args) {
  const auto hidden = args.f32("hidden");
  return {hidden, args.numbers("weight")};
}

HeadShape headShape(Args& args, const HeadTensors& tensors) {
  HeadShape shape;
  shape.tied = args.flag("tied");
  shape.rows = args.size("rows");
  shape.dim = args.size("dim");
  shape.vocab = args.size("vocab");
  if (shape.vocab == 0) throw ArgumentError{true, "vocab", "0", "at least 1"};
  shape.hidden = args.need(tensors.hidden, shape.rows * shape.dim, "rows * dim");
  shape.weight = args.need(tensors.weight, shape.vocab * shape.dim, "vocab * dim");
  return shape;
}

/** Temperatures above `lowest`, or equal to it when `lowest` is allowed. */
const float* needTemperatures(Args& args, const Span<float>& span, size_t rows, bool zeroAllowed) {
  args.need(span, rows, "rows");
  for (size_t i = 0; i < rows; i++)
    if (!(zeroAllowed ? span.data[i] >= 0 : span.data[i] > 0))
      throw ArgumentError{true, "temperatures[" + std::to_string(i) + "]", std::to_string(span.data[i]),
                          zeroAllowed ? "at least 0" : "above 0"};
  return span.data;
}

void headLogProb(Args& args) {
  const HeadTensors tensors = headTensors(args);
  const auto targets = args.u32("targets");
  const auto temperatures = args.f32("temperatures");
  const auto logProbs = args.f32("logProbs"), entropies = args.f32("entropies"), lse = args.f32("lse");
  const HeadShape shape = headShape(args, tensors);
  const size_t rows = shape.rows;
  args.need(targets, rows, "rows");
  kernels().headLogProb({shape, args.below(targets, rows, shape.vocab, "vocab"),
                         needTemperatures(args, temperatures, rows, false), args.need(logProbs, rows, "rows"),
                         args.need(entropies, rows, "rows"), args.need(lse, rows, "rows")},
                        Pool::shared());
}

void headBackward(Args& args) {
  const HeadTensors tensors = headTensors(args);
  const auto targets = args.u32("targets");
  const auto temperatures = args.f32("temperatures"), lse = args.f32("lse"), entropies = args.f32("entropies");
  const auto dLogProbs = args.f32("dLogProbs"), dEntropies = args.f32("dEntropies");
  const auto dHidden = args.f32("dHidden"), dWeight = args.f32OrNull("dWeight");
  const HeadShape shape = headShape(args, tensors);
  const size_t rows = shape.rows;
  args.need(targets, rows, "rows");
  kernels().headBackward(
      {shape, args.below(targets, rows, shape.vocab, "vocab"), needTemperatures(args, temperatures, rows, false),
       args.need(lse, rows, "rows"), args.need(entropies, rows, "rows"), args.need(dLogProbs, rows, "rows"),
       args.need(dEntropies, rows, "rows"), args.need(dHidden, rows * shape.dim, "rows * dim"),
       args.needOrNull(dWeight, shape.vocab * shape.dim, "vocab * dim")},
      Pool::shared());
}

void headSample(Args& args) {
  const HeadTensors tensors = headTensors(args);
  const auto temperatures = args.f32("temperatures");
  const auto topK = args.u32("topK");
  const auto topP = args.f32("topP"), minP = args.f32("minP");
  const auto seeds = args.u32("seeds"), tokens = args.u32("tokens");
  const auto logProbs = args.f32("logProbs"), keptMass = args.f32("keptMass");
  const HeadShape shape = headShape(args, tensors);
  const size_t rows = shape.rows;
  kernels().headSample({shape, needTemperatures(args, temperatures, rows, true), args.need(topK, rows, "rows"),
                        args.need(topP, rows, "rows"), args.need(minP, rows, "rows"), args.need(seeds, 4 * rows, "4 * rows"),
                        args.need(tokens, rows, "rows"), args.need(logProbs, rows, "rows"),
                        args.need(keptMass, rows, "rows")},
                       Pool::shared());
}

void adamw(Args& args) {
  const auto param = args.f32("param"), out = args.f32("out"), grad = args.f32("grad");
  const auto m = args.f32("m"), v = args.f32("v");
  AdamwArgs x;
  x.length = args.size("length");
  x.lr = args.number("lr");
  x.beta1 = args.number("beta1");
  x.beta2 = args.number("beta2");
  x.eps = args.number("eps");
  x.weightDecay = args.number("weightDecay");
  x.step = args.number("step");
  x.gradScale = args.number("gradScale");
  if (!(x.step >= 1)) throw ArgumentError{true, "step", std::to_string(x.step), "at least 1"};
  x.param = args.need(param, x.length, "length");
  x.out = args.need(out, x.length, "length");
  x.grad = args.need(grad, x.length, "length");
  x.m = args.need(m, x.length, "length");
  x.v = args.need(v, x.length, "length");
  kernels().adamw(x, Pool::shared());
}

void sumSquares(Args& args) {
  const auto x = args.f32("tensor");
  const size_t length = args.size("length");
  double result = 0;
  kernels().sumSquares({args.need(x, length, "length"), length, &result}, Pool::shared());
  args.result(result);
}

}  // namespace

void defineLearning(napi_env env, napi_value exports) {
  define(env, exports, "headLogProb", headLogProb);
  define(env, exports, "headBackward", headBackward);
  define(env, exports, "headSample", headSample);
  define(env, exports, "adamw", adamw);
  define(env, exports, "sumSquares", sumSquares);
}

}  // namespace agentrl
