/* What all kernels share: a vector of 16 floats, its functions, and the row of arguments that a kernel is given.

A Vec is one register of AVX-512, two of AVX, four of SSE or NEON: GCC and clang have vector types of these sizes. The
last vector of a row of numbers may have fewer than 16 of them: `Part` loads zeros for the rest and never touches
memory past the end. NaN and infinity pass through every function: nothing is compiled with -ffinite-math-only. */

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline))
#define LAMBDA __attribute__((always_inline))
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL(count) PRAGMA(clang loop unroll(full))
#define ROLLED PRAGMA(clang loop unroll(disable))
#else
#define UNROLL(count) PRAGMA(GCC unroll count)
#define ROLLED PRAGMA(GCC unroll 1)
#endif

constexpr int W = 16;
constexpr int PARTS = W / LANES;

#define EACH_PART UNROLL(4) for (int i = 0; i < PARTS; i++)

typedef float Register __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* ---- the arguments of a kernel ---- */

union Slot {
    float *floats;
    double *doubles;
    int64_t *integers;
    int64_t n;
    double x;
};

struct Row {
    void (*kernel)(const Slot *);
    Slot slots[24];
};

/* A kernel is a function of its slots, called by the address that Python looks up by its name. */
#define KERNEL(name) extern "C" __attribute__((visibility("default"))) void name(const Slot *s)

/* ---- vectors ---- */

struct Mask {
    Bits p[PARTS];
};

struct Vec {
    Register p[PARTS];
    Vec() = default;
    inline __attribute__((always_inline)) Vec(float x) { EACH_PART p[i] = x - Register{}; }
};

#define OPERATOR(O)                                                                   \
    INLINE Vec operator O(Vec a, Vec b) { Vec c; EACH_PART c.p[i] = a.p[i] O b.p[i]; return c; } \
    INLINE Vec &operator O##=(Vec &a, Vec b) { EACH_PART a.p[i] = a.p[i] O b.p[i]; return a; }
OPERATOR(+)
OPERATOR(-)
OPERATOR(*)
OPERATOR(/)
#undef OPERATOR

INLINE Vec operator-(Vec a) { EACH_PART a.p[i] = -a.p[i]; return a; }
INLINE Mask operator<(Vec a, Vec b) { Mask c; EACH_PART c.p[i] = a.p[i] < b.p[i]; return c; }

/* Lanes from `first` on, or those before it. */
INLINE Mask lanes_from(int first) {
    Mask c;
    EACH_PART for (int k = 0; k < LANES; k++) c.p[i][k] = i * LANES + k >= first ? -1 : 0;
    return c;
}
INLINE Vec select(Mask where, Vec a, Vec b) {
    EACH_PART a.p[i] = (Register)((where.p[i] & (Bits)a.p[i]) | (~where.p[i] & (Bits)b.p[i]));
    return a;
}
INLINE Vec absolute(Vec a) { EACH_PART a.p[i] = (Register)((Bits)a.p[i] & 0x7fffffff); return a; }
INLINE Vec with_sign_of(Vec size, Vec x) {
    EACH_PART size.p[i] = (Register)((Bits)size.p[i] | ((Bits)x.p[i] & (int32_t)0x80000000));
    return size;
}
INLINE Vec power_of_2(Vec k) {
    EACH_PART k.p[i] = (Register)((__builtin_convertvector(k.p[i], Bits) + 127) << 23);
    return k;
}

/* The larger one; b where one of them is NaN. */
INLINE Vec larger(Vec a, Vec b) {
#if LANES == 16
    a.p[0] = (Register)_mm512_max_ps((__m512)a.p[0], (__m512)b.p[0]);
#else
    EACH_PART a.p[i] = (Register)(((Bits)a.p[i] & (Bits)(a.p[i] > b.p[i])) | ((Bits)b.p[i] & ~(Bits)(a.p[i] > b.p[i])));
#endif
    return a;
}
INLINE Vec square_root(Vec a) {
#if LANES == 16
    a.p[0] = (Register)_mm512_sqrt_ps((__m512)a.p[0]);
#elif LANES == 8
    EACH_PART a.p[i] = (Register)_mm256_sqrt_ps((__m256)a.p[i]);
#else
    EACH_PART for (int k = 0; k < LANES; k++) a.p[i][k] = __builtin_sqrtf(a.p[i][k]);
#endif
    return a;
}
INLINE float sum_of(Vec a) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)a.p[0]);
#else
    Register s = a.p[0];
    for (int i = 1; i < PARTS; i++) s += a.p[i];
    float total = 0;
    for (int k = 0; k < LANES / 2; k++) total += s[k] + s[k + LANES / 2];
    return total;
#endif
}

/* Sums in double of many floats, added vector by vector: what scalar gains and norms of gradients need. */
struct Sum {
    typedef float Half __attribute__((vector_size(2 * LANES)));
    typedef double Wide __attribute__((vector_size(4 * LANES)));
    Wide p[2 * PARTS];
    Sum() { for (auto &x : p) x = Wide{}; }
    inline __attribute__((always_inline)) void add(Vec a) {
        Half h[2 * PARTS];
        memcpy(h, &a, sizeof(a));
        UNROLL(8) for (int i = 0; i < 2 * PARTS; i++) p[i] += __builtin_convertvector(h[i], Wide);
    }
    inline __attribute__((always_inline)) void add_square(Vec a) {
        Half h[2 * PARTS];
        memcpy(h, &a, sizeof(a));
        UNROLL(8) for (int i = 0; i < 2 * PARTS; i++) {
            Wide x = __builtin_convertvector(h[i], Wide);
            p[i] += x * x;
        }
    }
    Vec each_over(double divisor) const { /* of each lane by itself */
        Half h[2 * PARTS];
        for (int i = 0; i < 2 * PARTS; i++) h[i] = __builtin_convertvector(p[i] / (divisor - Wide{}), Half);
        Vec a;
        memcpy(&a, h, sizeof(a));
        return a;
    }
    double total() const {
        double t = 0;
        for (auto &x : p)
            for (int k = 0; k < LANES / 2; k++) t += x[k];
        return t;
    }
};

/* ---- memory: whole vectors, and the last one of a row, which may have fewer than 16 numbers ---- */

struct Whole {};
struct Part {
    int count;
};

INLINE Vec load(const float *x, Whole = {}) { Vec a; EACH_PART a.p[i] = *(const Register *)(x + LANES * i); return a; }
INLINE void store(float *x, Vec a, Whole = {}) { EACH_PART *(Register *)(x + LANES * i) = a.p[i]; }

#if LANES == 8
INLINE __m256i first_lanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

INLINE Vec load(const float *x, Part lanes) {
    Vec a;
#if LANES == 16
    a.p[0] = (Register)_mm512_maskz_loadu_ps((__mmask16)((1u << lanes.count) - 1), x);
#elif LANES == 8 && defined(__AVX2__)
    EACH_PART a.p[i] = (Register)_mm256_maskload_ps(x + LANES * i, first_lanes(lanes.count - LANES * i));
#else
    float copy[W] = {};
    for (int k = 0; k < lanes.count; k++) copy[k] = x[k];
    a = load(copy);
#endif
    return a;
}
INLINE void store(float *x, Vec a, Part lanes) {
#if LANES == 16
    _mm512_mask_storeu_ps(x, (__mmask16)((1u << lanes.count) - 1), (__m512)a.p[0]);
#elif LANES == 8 && defined(__AVX2__)
    EACH_PART _mm256_maskstore_ps(x + LANES * i, first_lanes(lanes.count - LANES * i), (__m256)a.p[i]);
#else
    float copy[W];
    store(copy, a);
    for (int k = 0; k < lanes.count; k++) x[k] = copy[k];
#endif
}

/* The vector with zeros in the lanes that are not there: for sums over lanes of what is not zero for a zero. */
INLINE Vec present(Vec a, Whole) { return a; }
INLINE Vec present(Vec a, Part lanes) { return select(lanes_from(lanes.count), 0, a); }

template <class Lanes> INLINE Vec load_or_zero(const float *x, Lanes lanes) { return x ? load(x, lanes) : Vec(0); }
template <class Lanes> INLINE void add_to(float *x, Vec a, Lanes lanes) { store(x, load(x, lanes) + a, lanes); }

/* Call body(j, lanes) for the vectors of `count` numbers, j being the first number of each. */
template <class Body> INLINE void each_vector(int64_t count, Body body) {
    int64_t j = 0;
    for (; j + W <= count; j += W) body(j, Whole());
    if (j < count) body(j, Part{(int)(count - j)});
}

/* A number of vectors, as an argument of a lambda. */
template <int N> struct Count {
    static constexpr int value = N;
};

/* A pointer that moves only if it is there. */
INLINE const float *at(const float *x, int64_t offset) { return x ? x + offset : x; }
INLINE float *at(float *x, int64_t offset) { return x ? x + offset : x; }

/* ---- functions ---- */

/* e^x for x <= 88: 2^k times a polynomial of x - k ln 2 (Cephes, expf). 0 below -87.3, NaN for NaN. */
INLINE Vec exponential(Vec x) {
    Mask none = x < Vec(-87.3f);
    x = larger(-87.3f, x);
    Vec k = x * 1.44269504f + 12582912.0f - 12582912.0f, r = x - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return select(none, 0, p * power_of_2(k));
}

/* tanh x: an odd polynomial (Cephes, tanhf) for |x| < 0.625, else 1 - 2 e / (1 + e), e = e^-2|x|, with x's sign. */
INLINE Vec hyperbolic_tangent(Vec x) {
    Vec a = absolute(x), s = x * x;
    Vec e = exponential(-2.0f * a), far = 1.0f - (e + e) / (1.0f + e);
    Vec p = s * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * s + -5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s + -3.33332819422e-1f;
    Vec near = p * s * x + x;
    return select(a < Vec(0.625f), near, with_sign_of(far, x));
}

/* The standard normal distribution function of x and its density. For z = |x|, cdf(-z) = e^(-z^2 / 2) P(1 / (1 + c z)):
   P is the Chebyshev interpolation of degree 8 over 0 <= z <= 13.2 with c = 0.3, its relative error below 4e-7. */
INLINE void normal_distribution(Vec x, Vec *cdf, Vec *pdf) {
    constexpr float P[] = {8.904902903e-06f, 1.194548184e-01f,  1.221790768e-01f, 9.357681936e-02f, 1.453546691e-01f,
                           -8.089820633e-02f, 2.327593518e-01f, -1.712693999e-01f, 3.883400030e-02f};
    Vec t = 1.0f / (1.0f + 0.3f * absolute(x)), e = exponential(-0.5f * x * x);
    Vec p = P[8];
    UNROLL(8) for (int i = 7; i >= 0; i--) p = p * t + P[i];
    Vec tail = p * e;
    *cdf = select(x < Vec(0.0f), tail, 1.0f - tail);
    *pdf = 0.3989422804f * e;
}

/* ---- a square of 16 vectors ---- */

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Bits){__VA_ARGS__})
#endif
#if LANES == 16
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

/* The lanes of a and b in turn: those of their first halves, or of their last ones. */
INLINE Vec interleave(Vec a, Vec b, int last) {
    Vec c;
    EACH_PART {
        int half = last * PARTS + i;
        Register x = a.p[half / 2], y = b.p[half / 2];
        c.p[i] = half % 2 ? (Register)SHUFFLE(x, y, HIGH_HALVES) : (Register)SHUFFLE(x, y, LOW_HALVES);
    }
    return c;
}

/* Rows become columns, in four rounds. */
INLINE void transpose(Vec *a) {
    Vec b[16];
    UNROLL(4) for (int round = 0; round < 4; round++) {
        UNROLL(8) for (int i = 0; i < 8; i++) {
            b[2 * i] = interleave(a[i], a[i + 8], 0);
            b[2 * i + 1] = interleave(a[i], a[i + 8], 1);
        }
        UNROLL(16) for (int i = 0; i < 16; i++) a[i] = b[i];
    }
}

/* Ask for a cache line of each of 16 rows: the processor does not foresee rows that lie far apart. */
template <int WRITTEN> INLINE void prefetch_rows(const float *p, int64_t step) {
    UNROLL(16) for (int i = 0; i < 16; i++) __builtin_prefetch(p + i * step, WRITTEN, 2);
}

/* ---- overflow ---- */

/* From such a sum of squares on, a norm gives NaN, and the trainer asks autograd, whose formulas overflow elsewhere:
   a kernel may be non-finite too early, never too late. */
constexpr float NEAR_OVERFLOW = 1e30f;
