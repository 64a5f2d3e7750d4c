// What a compiler must not choose: the rounding of every float operation, and the instructions that have no C++ name.
//
// Floats are IEEE 754 binary32 with denormals kept, as docs/numerics.md says. CuPy compiles everything with -ftz=true,
// which would flush them in `a * b` and in __fmul_rn too, and a compiler may join a product and a sum; the instructions
// below are written out, so neither flags nor contraction reach them. No other float arithmetic is done anywhere.
#pragma once

#include <cuda_fp16.h>

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;

constexpr unsigned ALL_LANES = 0xffffffffu;

extern __shared__ __align__(16) unsigned char smem[];

#ifdef QCHAT_CUDA_HOST  // tests/cuda_host: g++ without contraction and without -ffast-math
__device__ __forceinline__ float fma_rn(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ float mul_rn(float a, float b) { return a * b; }
__device__ __forceinline__ float add_rn(float a, float b) { return a + b; }
__device__ __forceinline__ float sub_rn(float a, float b) { return a - b; }
__device__ __forceinline__ float div_rn(float a, float b) { return a / b; }
__device__ __forceinline__ float sqrt_rn(float a) { return sqrtf(a); }
__device__ __forceinline__ unsigned flip_bits(unsigned x, unsigned bits) { return x ^ bits; }
__device__ __forceinline__ unsigned keep_bits(unsigned x, unsigned bits) { return x & bits; }
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float smaller(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ unsigned load_acquire(const unsigned* p) { return cuda_host::load_acquire(p); }
__device__ __forceinline__ unsigned load_from_host(const unsigned* p) { return cuda_host::load_relaxed(p); }
__device__ __forceinline__ void store_to_host(unsigned long long* p, unsigned long long v) {
    cuda_host::store_relaxed(p, v);
}
__device__ __forceinline__ unsigned microseconds() { return cuda_host::microseconds(); }
__device__ __forceinline__ void prefetch_l2(const void*) {}
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                            unsigned b0, unsigned b1) {
    const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    cuda_host::mma_m16n8k32_s8(d, a, b);
}
__device__ __forceinline__ void mma_16x8x16(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    mma_16x8x32(d, a0, a1, 0, 0, b0, 0);
}
__device__ __forceinline__ void copy_16(void* shared, const void* global) { cuda_host::cp_async<16>(shared, global); }
__device__ __forceinline__ void finish_copies() {
    cuda_host::cp_async_commit();
    cuda_host::cp_async_wait<0>();
}
#else
__device__ __forceinline__ float fma_rn(float a, float b, float c) {
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}
#define QCHAT_BINARY(name, instruction)                             \
    __device__ __forceinline__ float name(float a, float b) {       \
        float d;                                                    \
        asm(instruction " %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)); \
        return d;                                                   \
    }
QCHAT_BINARY(mul_rn, "mul.rn.f32")
QCHAT_BINARY(add_rn, "add.rn.f32")
QCHAT_BINARY(sub_rn, "sub.rn.f32")
QCHAT_BINARY(div_rn, "div.rn.f32")
QCHAT_BINARY(larger, "max.f32")
QCHAT_BINARY(smaller, "min.f32")
#undef QCHAT_BINARY
// Written out too: of x ^ 0x80000000 a compiler makes neg.ftz.f32 again, which is an addition on sm_100.
__device__ __forceinline__ unsigned flip_bits(unsigned x, unsigned bits) {
    unsigned d;
    asm("xor.b32 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(bits));
    return d;
}
__device__ __forceinline__ unsigned keep_bits(unsigned x, unsigned bits) {
    unsigned d;
    asm("and.b32 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(bits));
    return d;
}
__device__ __forceinline__ float sqrt_rn(float a) {
    float d;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
// Memory of the host, which it writes and reads while the kernel runs: a whole word at a time.
__device__ __forceinline__ unsigned load_from_host(const unsigned* p) {
    unsigned v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_to_host(unsigned long long* p, unsigned long long v) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ unsigned microseconds() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return (unsigned)(nanoseconds / 1000);
}
__device__ __forceinline__ void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
// 16 bytes to shared memory, on their way until finish_copies; both addresses are multiples of 16.
__device__ __forceinline__ void copy_16(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
#else
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#endif
}
__device__ __forceinline__ void finish_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                            unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_16x8x16(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
}
#else  // Turing has the quarter: 8 x 8 x 16, whose fragments are the registers of the larger ones
__device__ __forceinline__ void mma_8x8x16(int& d0, int& d1, unsigned a, unsigned b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(d0), "+r"(d1)
        : "r"(a), "r"(b));
}
__device__ __forceinline__ void mma_16x8x16(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    mma_8x8x16(d[0], d[1], a0, b0);
    mma_8x8x16(d[2], d[3], a1, b0);
}
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                            unsigned b0, unsigned b1) {
    mma_16x8x16(d, a0, a1, b0);
    mma_16x8x16(d, a2, a3, b1);
}
#endif
#endif

__device__ __forceinline__ float half_to_float(unsigned bits) { return __half2float(__ushort_as_half((u16)bits)); }
__device__ __forceinline__ u16 float_to_half(float x) { return __half_as_ushort(__float2half_rn(x)); }
// By their bits: -x and fabsf(x) are float operations too, which -ftz=true reaches.
__device__ __forceinline__ float negated(float x) { return __uint_as_float(flip_bits(__float_as_uint(x), 0x80000000u)); }
__device__ __forceinline__ float absolute(float x) { return __uint_as_float(keep_bits(__float_as_uint(x), 0x7fffffffu)); }

__device__ __forceinline__ int lane_id() { return threadIdx.x & 31; }
__device__ __forceinline__ int warp_id() { return threadIdx.x >> 5; }
