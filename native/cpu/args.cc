#include "args.h"

#include <new>

namespace agentrl {

namespace {

struct Entry {
  const char* name;
  Binding binding;
};

void setText(napi_env env, napi_value object, const char* key, const std::string& value) {
  napi_value text;
  napi_create_string_utf8(env, value.data(), value.size(), &text);
  napi_set_named_property(env, object, key, text);
}

void raise(napi_env env, const char* op, const ArgumentError& e) {
  const std::string message =
      std::string(op) + ": argument " + e.argument + ": got " + e.got + ", expected " + e.expected;
  napi_value text, error;
  napi_create_string_utf8(env, message.data(), message.size(), &text);
  if (e.range)
    napi_create_range_error(env, nullptr, text, &error);
  else
    napi_create_type_error(env, nullptr, text, &error);
  setText(env, error, "operator", op);
  setText(env, error, "argument", e.argument);
  setText(env, error, "got", e.got);
  setText(env, error, "expected", e.expected);
  napi_throw(env, error);
}

napi_value call(napi_env env, napi_callback_info info) {
  void* data = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &data);
  const Entry& entry = *static_cast<const Entry*>(data);
  Args args(env, info, entry.name);
  try {
    entry.binding(args);
    return args.result();
  } catch (const ArgumentError& e) {
    raise(env, entry.name, e);
  } catch (const std::bad_alloc&) {
    raise(env, entry.name, {true, "(working memory)", "no more memory", "memory for the operator's buffers"});
  }
  return nullptr;
}

}  // namespace

void Args::wrongType(const char* name, const char* expected) const {
  static const char* const kNames[] = {"undefined", "null",   "a boolean", "a number", "a string",
                                       "a symbol",  "object", "function",  "external", "bigint"};
  napi_valuetype type = napi_undefined;
  if (next_ < count_) napi_typeof(env_, values_[next_], &type);
  std::string got = kNames[type];
  bool typed = false;
  if (next_ < count_) napi_is_typedarray(env_, values_[next_], &typed);
  if (typed) got = "a typed array of another kind";
  throw ArgumentError{false, name, got, expected};
}

void define(napi_env env, napi_value exports, const char* name, Binding binding) {
  // One per function and process; lives as long as the addon.
  auto* entry = new Entry{name, binding};
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, call, entry, &function);
  napi_add_finalizer(env, function, entry, [](napi_env, void* data, void*) { delete static_cast<Entry*>(data); }, nullptr,
                     nullptr);
  napi_set_named_property(env, exports, name, function);
}

}  // namespace agentrl
