// Reads the arguments of a binding in order and says precisely what is wrong with one: operator, argument, got,
// expected. Plain Node-API, since these calls are counted in microseconds and most pass more than six arguments.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "numbers.h"

namespace agentrl {

/** A typed array: where and how long. */
template <typename T>
struct Span {
  T* data = nullptr;
  size_t length = 0;
  const char* name = "";
  bool absent = false;
};

/** Numbers of 32 or 16 bits. */
struct Numbers {
  Stored stored;
  size_t length;
  const char* name;
};

/** Thrown by Args, turned into a TypeError or RangeError with the same fields. */
struct ArgumentError {
  bool range;
  std::string argument, got, expected;
};

class Args {
 public:
  static constexpr size_t kMost = 32;

  Args(napi_env env, napi_callback_info info, const char* op) : env_(env), op_(op) {
    count_ = kMost;
    napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr);
  }

  napi_env env() const { return env_; }
  const char* op() const { return op_; }

  // In order of the call.
  Span<float> f32(const char* name) { return typed<float>(name, napi_float32_array, "a Float32Array"); }
  Span<uint32_t> u32(const char* name) { return typed<uint32_t>(name, napi_uint32_array, "a Uint32Array"); }
  /** Of length 0 and without data when the argument is undefined or null; for `needOrNull`. */
  Span<float> f32OrNull(const char* name) {
    napi_valuetype type = napi_undefined;
    if (next_ < count_) napi_typeof(env_, values_[next_], &type);
    if (type != napi_undefined && type != napi_null) return f32(name);
    next_++;
    return {nullptr, 0, name, true};
  }
  /** "f32", "f16" or "bf16". */
  Number numberType(const char* name) {
    const std::string type = text(name);
    if (type == "f32") return Number::f32;
    if (type == "f16") return Number::f16;
    if (type == "bf16") return Number::bf16;
    throw ArgumentError{true, name, type, "f32, f16 or bf16"};
  }
  /** Two arguments: a Float32Array or Uint16Array, and the type of its numbers. */
  Numbers numbers(const char* name) {
    const size_t at = next_++;
    const Number type = numberType(name);
    const size_t behind = next_;
    next_ = at;
    const auto read = [&](const auto& span) { return Numbers{{span.data, type}, span.length, name}; };
    const Numbers result =
        type == Number::f32 ? read(f32(name)) : read(typed<uint16_t>(name, napi_uint16_array, "a Uint16Array"));
    next_ = behind;
    return result;
  }
  double number(const char* name) {
    double value = 0;
    if (next_ >= count_ || napi_get_value_double(env_, values_[next_], &value) != napi_ok) wrongType(name, "a number");
    next_++;
    return value;
  }
  /** A whole number from 0 to 2^53. */
  size_t size(const char* name) {
    const double value = number(name);
    if (!(value >= 0 && value <= 9007199254740992.0) || value != static_cast<double>(static_cast<uint64_t>(value)))
      throw ArgumentError{true, name, std::to_string(value), "a whole number >= 0"};
    return static_cast<size_t>(value);
  }
  bool flag(const char* name) {
    bool value = false;
    if (next_ >= count_ || napi_get_value_bool(env_, values_[next_], &value) != napi_ok) wrongType(name, "a boolean");
    next_++;
    return value;
  }
  std::string text(const char* name) {
    char buffer[64];
    size_t length = 0;
    if (next_ >= count_ || napi_get_value_string_utf8(env_, values_[next_], buffer, sizeof buffer, &length) != napi_ok)
      wrongType(name, "a string");
    next_++;
    return std::string(buffer, length);
  }
  napi_value raw() { return next_ < count_ ? values_[next_++] : nullptr; }

  /** The span must hold `elements`; `shape` in words, such as "m * k". */
  template <typename T>
  static T* need(const Span<T>& span, size_t elements, const char* shape) {
    checkLength(span, elements, shape);
    return span.data;
  }
  static Stored need(const Numbers& numbers, size_t elements, const char* shape) {
    checkLength(numbers, elements, shape);
    return numbers.stored;
  }
  /** The same for what may be left out. */
  template <typename T>
  static T* needOrNull(const Span<T>& span, size_t elements, const char* shape) {
    return span.absent ? nullptr : need(span, elements, shape);
  }
  /** The first `count` of ids lie in [0, limit). */
  static const uint32_t* below(const Span<uint32_t>& span, size_t count, size_t limit, const char* what) {
    for (size_t i = 0; i < count; i++)
      if (span.data[i] >= limit)
        throw ArgumentError{true, std::string(span.name) + "[" + std::to_string(i) + "]", std::to_string(span.data[i]),
                            std::string("below ") + what + " " + std::to_string(limit)};
    return span.data;
  }

  void result(double value) { napi_create_double(env_, value, &result_); }
  void result(napi_value value) { result_ = value; }
  napi_value result() const { return result_; }

 private:
  template <typename Run>
  static void checkLength(const Run& run, size_t elements, const char* shape) {
    if (run.length < elements)
      throw ArgumentError{true, run.name, std::to_string(run.length) + " elements",
                          "at least " + std::to_string(elements) + " (" + shape + ")"};
  }

  template <typename T>
  Span<T> typed(const char* name, napi_typedarray_type wanted, const char* expected) {
    napi_typedarray_type type;
    size_t length = 0;
    void* data = nullptr;
    if (next_ >= count_ ||
        napi_get_typedarray_info(env_, values_[next_], &type, &length, &data, nullptr, nullptr) != napi_ok ||
        type != wanted)
      wrongType(name, expected);
    next_++;
    return {static_cast<T*>(data), length, name};
  }

  [[noreturn]] void wrongType(const char* name, const char* expected) const;

  napi_env env_;
  const char* op_;
  napi_value values_[kMost];
  size_t count_ = 0;
  size_t next_ = 0;
  napi_value result_ = nullptr;
};

using Binding = void (*)(Args& args);

/** exports[name] = binding. The error of a bad argument has the properties operator, argument, got and expected. */
void define(napi_env env, napi_value exports, const char* name, Binding binding);

}  // namespace agentrl
