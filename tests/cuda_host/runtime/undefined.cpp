// What a kernel that was compiled with -fsanitize=undefined calls instead of libubsan: the same checks, as findings.
#include "state.h"

using namespace cuda_host;

namespace {

// Layouts of GCC's libubsan, version 1. Every record starts with the place in the source.
struct Source {
  const char* file;
  uint32_t line, column;
};
struct TypeName {
  uint16_t kind, info;
  char text[1];
};
struct Mismatch {
  Source source;
  const TypeName* type;
  uint8_t alignment_log2, access;
};
struct Typed {
  Source source;
  const TypeName* type;
};

Place place(const Source& source) { return {source.file, int(source.line)}; }

[[noreturn]] void undefined(const Source& source, const char* text) {
  fail("undefined-behaviour", place(source), "%s", text);
}

}  // namespace

extern "C" {

void __ubsan_handle_type_mismatch_v1(const Mismatch* data, uintptr_t address) {
  const char* type = data->type->text;
  if (!address) fail("out-of-bounds", place(data->source), "a null pointer to %s is used", type);
  const uintptr_t alignment = uintptr_t(1) << data->alignment_log2;
  if (address % alignment)
    fail("misaligned", place(data->source), "%s asks for a multiple of %zu, and the address is %zu above one", type,
         size_t(alignment), size_t(address % alignment));
  fail("out-of-bounds", place(data->source), "no room for %s at the address", type);
}
void __ubsan_handle_out_of_bounds(const Typed* data, intptr_t index) {
  fail("out-of-bounds", place(data->source), "index %zd of %s", index, data->type->text);
}
void __ubsan_handle_pointer_overflow(const Source* source) {
  undefined(*source, "a pointer goes round the address space");
}
void __ubsan_handle_shift_out_of_bounds(const Typed* data, intptr_t, intptr_t by) {
  fail("undefined-behaviour", place(data->source), "%s is shifted by %zd", data->type->text, by);
}
void __ubsan_handle_add_overflow(const Typed* data) { undefined(data->source, "a signed sum does not fit its type"); }
void __ubsan_handle_sub_overflow(const Typed* data) {
  undefined(data->source, "a signed difference does not fit its type");
}
void __ubsan_handle_mul_overflow(const Typed* data) {
  undefined(data->source, "a signed product does not fit its type");
}
void __ubsan_handle_negate_overflow(const Typed* data) {
  undefined(data->source, "a negated number does not fit its type");
}
void __ubsan_handle_divrem_overflow(const Typed* data) {
  undefined(data->source, "an integer is divided by zero, or the quotient does not fit");
}
void __ubsan_handle_vla_bound_not_positive(const Typed* data) { undefined(data->source, "an array of no elements"); }
void __ubsan_handle_load_invalid_value(const Typed* data) {
  undefined(data->source, "a bool or enum holds another value");
}
void __ubsan_handle_nonnull_arg(const Source* source) {
  undefined(*source, "a null pointer is passed where none may be");
}
void __ubsan_handle_builtin_unreachable(const Source* source) {
  undefined(*source, "__builtin_unreachable is reached");
}
void __ubsan_handle_missing_return(const Source* source) {
  undefined(*source, "a function ends without its return value");
}
void __ubsan_handle_invalid_builtin(const Source* source) {
  undefined(*source, "__builtin_clz or __builtin_ctz of zero");
}
}
