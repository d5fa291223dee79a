/* Products of matrices, with what is added to them. A product is made tile by tile: a tile of C stays in registers while
   the common length runs, one column of A and one row of B at a time.

   A tile has up to 3 vectors of columns; its height is what the registers hold (32 of AVX-512, 16 of AVX and SSE). */

#include "vector.h"

/* Of a long common length, so many are summed in registers before they are added to C: a short sum loses fewer digits,
   and its rows of B stay in the cache. */
constexpr int64_t SUMMED = 128;

/* C (M, N) = A B [+ bias] [+ skip]. A has element (m, k) at m row + k column, B (K, N) has rows of ldb. */
struct Product {
    float *C;
    const float *A, *B, *bias, *skip;
    int64_t K, ldc, ldb, row, column;
};

/* M rows and NV vectors of columns, of which the last may be a part. COLUMNS: whether A's columns lie side by side
   (column is 1); else its rows do (row is 1). */
template <int M, int NV, bool COLUMNS, class Last> INLINE void tile(const Product &p, int64_t m, int64_t n, Last last) {
    const int64_t row = COLUMNS ? p.row : 1, column = COLUMNS ? 1 : p.column;
    const float *a = p.A + m * row, *b = p.B + n;
    Vec c[M][NV];
    UNROLL(16) for (int i = 0; i < M; i++) UNROLL(16) for (int j = 0; j < NV; j++) c[i][j] = 0;
    ROLLED for (int64_t k = 0; k < p.K; k++, a += column, b += p.ldb) {
        Vec bk[NV];
        if (!COLUMNS) { /* a weight's gradient walks down both matrices, a row a step, and neither is in the cache */
            __builtin_prefetch(a + 16 * column, 0, 2);
            UNROLL(16) for (int j = 0; j < NV; j++) __builtin_prefetch(b + 16 * p.ldb + W * j, 0, 2);
        }
        UNROLL(16) for (int j = 0; j < NV - 1; j++) bk[j] = load(b + W * j);
        bk[NV - 1] = load(b + W * (NV - 1), last);
        UNROLL(16) for (int i = 0; i < M; i++) {
            Vec ak = a[i * row];
            UNROLL(16) for (int j = 0; j < NV; j++) c[i][j] += ak * bk[j];
        }
    }
    auto finish = [&](int i, int j, auto lanes) LAMBDA {
        int64_t at = (m + i) * p.ldc + n + W * j;
        Vec x = c[i][j];
        if (p.bias) x += load(p.bias + n + W * j, lanes);
        if (p.skip) x += load(p.skip + at, lanes);
        store(p.C + at, x, lanes);
    };
    UNROLL(16) for (int i = 0; i < M; i++) {
        UNROLL(16) for (int j = 0; j < NV - 1; j++) finish(i, j, Whole());
        finish(i, NV - 1, last);
    }
}

/* All rows of NV vectors of columns, as many at a time as fit into the registers; then the rest. */
template <int M, int NV, bool COLUMNS, class Last>
static __attribute__((noinline)) void short_panel(const Product &p, int64_t rows, int64_t n, Last last) {
    int64_t m = 0;
    for (; m + M <= rows; m += M) tile<M, NV, COLUMNS>(p, m, n, last);
    if (M > 8 && m + 8 <= rows) { tile<8, NV, COLUMNS>(p, m, n, last); m += 8; }
    if (M > 4 && m + 4 <= rows) { tile<4, NV, COLUMNS>(p, m, n, last); m += 4; }
    if (M > 2 && m + 2 <= rows) { tile<2, NV, COLUMNS>(p, m, n, last); m += 2; }
    for (; m < rows; m++) tile<1, NV, COLUMNS>(p, m, n, last);
}

/* The same, a piece of the common length at a time. */
template <int M, int NV, bool COLUMNS, class Last> INLINE void panel(Product p, int64_t rows, int64_t n, Last last) {
    const int64_t K = p.K;
    for (int64_t k = 0; k < K; k += SUMMED) {
        p.K = K - k < SUMMED ? K - k : SUMMED;
        short_panel<M, NV, COLUMNS>(p, rows, n, last);
        p.A += SUMMED * (COLUMNS ? 1 : p.column);
        p.B += SUMMED * p.ldb;
        p.bias = nullptr;
        p.skip = p.C;
    }
}

template <bool COLUMNS> INLINE void all_columns(const Product &p, int64_t rows, int64_t columns) {
    int64_t n = 0;
#if LANES == 16
    const int64_t pairs = columns % (3 * W) ? columns : 0; /* 3 vectors where they fit without a rest, else 2 */
    if (!pairs)
        for (; n < columns; n += 3 * W) panel<8, 3, COLUMNS>(p, rows, n, Whole());
    for (; n + 2 * W <= columns; n += 2 * W) panel<14, 2, COLUMNS>(p, rows, n, Whole());
    if (n + W < columns) {
        panel<14, 2, COLUMNS>(p, rows, n, Part{(int)(columns - n - W)});
        return;
    }
    constexpr int HEIGHT = 14;
#else
    constexpr int HEIGHT = LANES == 8 ? 6 : 3;
#endif
    for (; n + W <= columns; n += W) panel<HEIGHT, 1, COLUMNS>(p, rows, n, Whole());
    if (n < columns) panel<HEIGHT, 1, COLUMNS>(p, rows, n, Part{(int)(columns - n)});
}

/* Slots: rows M, C, A, B, bias, skip (both may be null; skip has the layout of C), columns N, common length K, ldc, ldb,
   row and column of A, of which one is 1. */
KERNEL(product) {
    Product p = {s[1].floats, s[2].floats, s[3].floats, s[4].floats, s[5].floats, s[7].n, s[8].n, s[9].n, s[10].n, s[11].n};
    if (p.column == 1) all_columns<true>(p, s[0].n, s[6].n);
    else all_columns<false>(p, s[0].n, s[6].n);
}

/* Y (c, r) from X (r, c). Slots: X, Y, r, c. */
KERNEL(transposed) {
    const float *x = s[0].floats;
    float *y = s[1].floats;
    const int64_t r = s[2].n, c = s[3].n;
    for (int64_t i = 0; i < r; i += W)
        each_vector(c, [&](int64_t j, auto lanes) LAMBDA {
            Vec a[W];
            const int rows = r - i < W ? (int)(r - i) : W, columns = c - j < W ? (int)(c - j) : W;
            if (i + 2 * W <= r) prefetch_rows<0>(x + (i + W) * c + j, c);
            if (rows == W) UNROLL(16) for (int k = 0; k < W; k++) a[k] = load(x + (i + k) * c + j, lanes);
            else UNROLL(16) for (int k = 0; k < W; k++) a[k] = k < rows ? load(x + (i + k) * c + j, lanes) : Vec(0);
            transpose(a);
            if (rows == W && columns == W) UNROLL(16) for (int k = 0; k < W; k++) store(y + (j + k) * r + i, a[k]);
            else for (int k = 0; k < columns; k++) store(y + (j + k) * r + i, a[k], Part{rows});
        });
}
