// What a compiled file of kernels tells the runtime: each kernel's name, how to call it, and its parameters' types.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

struct __half;
struct __nv_bfloat16;

namespace cuda_host {

struct Parameter {
  const char* name;  // "[with T = const float*]" of a function's name, cut by the reader
  char kind;         // p pointer, i signed, u unsigned, f float, b bool, s structure
  int bytes;
  char element_kind;  // of a pointer; v for void
  int element_bytes;
  bool writes;  // a pointer to what is not const
};

struct Kernel {
  const char* name;
  void (*call)(void** arguments);
  const Parameter* parameters;
  int parameter_count;
};

struct Module {
  const Kernel* kernels;
  int kernel_count;
  char* (*dynamic_shared)();  // where the dynamic array is for the calling system thread
  size_t dynamic_capacity;    // 0 when the file declares none
  bool instrumented;          // each access calls the runtime
};

template <class T>
constexpr char kind_of() {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_void_v<V>)
    return 'v';
  else if constexpr (std::is_pointer_v<V>)
    return 'p';
  else if constexpr (std::is_same_v<V, bool>)
    return 'b';
  else if constexpr (std::is_floating_point_v<V> || std::is_same_v<V, __half>)
    return 'f';
  else if constexpr (std::is_integral_v<V>)
    return std::is_signed_v<V> ? 'i' : 'u';
  else
    return 's';
}

template <class T>
constexpr int size_of() {
  if constexpr (std::is_void_v<T>)
    return 0;
  else
    return sizeof(T);
}

template <class T>
constexpr const char* type_name() {
  return __PRETTY_FUNCTION__;
}

template <class T>
constexpr Parameter parameter() {
  using Element = std::remove_pointer_t<T>;
  constexpr bool pointer = std::is_pointer_v<T>;
  return {type_name<T>(),
          kind_of<T>(),
          int(sizeof(T)),
          pointer ? kind_of<Element>() : ' ',
          pointer ? size_of<Element>() : 0,
          pointer && !std::is_const_v<Element>};
}

template <auto function>
struct Entry;
template <class... P, void (*function)(P...)>
struct Entry<function> {
  static constexpr Parameter parameters[sizeof...(P) + 1] = {parameter<P>()...};
  template <size_t... i>
  static void spread(void** arguments, std::index_sequence<i...>) {
    function(*static_cast<P*>(arguments[i])...);
  }
  static void call(void** arguments) { spread(arguments, std::index_sequence_for<P...>{}); }
  static constexpr Kernel kernel(const char* name) { return {name, call, parameters, int(sizeof...(P))}; }
};

}  // namespace cuda_host
