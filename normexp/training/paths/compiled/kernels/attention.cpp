/* Causal attention of one head of one sequence at a time: y = softmax(scale q k^T) v, token i seeing tokens j <= i.

   Tokens and features come in blocks of 16. Scores lie by key: lane i of row j belongs to query i and key j, so that a
   softmax works on whole vectors. Of a block on the diagonal only j <= i is computed. Where tokens or features are no
   multiple of 16, the head is copied into buffers filled up with zeros.

   Axes: sequences, t tokens, heads, k features of a head; T and K are t and k rounded up to 16. Element (token, feature)
   of q, k and v of a head is at token ld + feature; heads lie side by side. */

#include "vector.h"

constexpr int B = 16; /* tokens or features of a block */
constexpr int64_t MOST_TOKENS = 64, MOST_FEATURES = 128;

#define NOINLINE static __attribute__((noinline))

INLINE int64_t rounded_up(int64_t count) { return (count + B - 1) / B * B; }

/* Columns of a block of 16 rows, for FB blocks of features: lane i of column f is x[i][f]. */
NOINLINE void columns_of(const float *x, int64_t ld, int64_t FB, Vec *columns) {
    for (int64_t f = 0; f < FB; f++) {
        Vec a[B];
        UNROLL(16) for (int i = 0; i < B; i++) a[i] = load(x + i * ld + f * B);
        transpose(a);
        UNROLL(16) for (int i = 0; i < B; i++) columns[f * B + i] = a[i];
    }
}

/* out[j] = sum over features f of rows[j][f] columns[f] [+ out[j]], for 16 rows j and 16 features: a part of rows columns^T. */
template <bool MORE> NOINLINE void products_with_columns(const float *rows, int64_t ld, const Vec *columns, float *out) {
    Vec c[B];
    UNROLL(16) for (int f = 0; f < B; f++) c[f] = columns[f];
    ROLLED for (int j = 0; j < B; j++) {
        const float *row = rows + j * ld;
        Vec x = row[0] * c[0], z = row[1] * c[1];
        UNROLL(16) for (int f = 2; f < B; f += 2) {
            x += row[f] * c[f];
            z += row[f + 1] * c[f + 1];
        }
        x += z;
        if (MORE) x += load(out + j * B);
        store(out + j * B, x);
    }
}
INLINE void scores(const float *rows, int64_t ld, const Vec *columns, int64_t FB, float *out) {
    products_with_columns<false>(rows, ld, columns, out);
    for (int64_t f = 1; f < FB; f++) products_with_columns<true>(rows + f * B, ld, columns + f * B, out);
}

/* out[i] = sum over keys j of weights[j][i] rows[j]: one block of 16 by 16; DIAGONAL: j <= i alone. `more` adds to what
   is there; what was made is added to `sum`. */
template <bool DIAGONAL>
NOINLINE void sum_over_keys(const float *weights, const float *rows, int64_t ldr, float *out, int64_t ldo, bool more, Vec *sum) {
    Vec w[B], all = *sum;
    UNROLL(16) for (int j = 0; j < B; j++) w[j] = load(rows + j * ldr);
    UNROLL(16) for (int i = 0; i < B; i++) {
        Vec x = weights[i] * w[0];
        UNROLL(16) for (int j = 1; j < (DIAGONAL ? i + 1 : B); j++) x += weights[j * B + i] * w[j];
        all += x;
        if (more) x += load(out + i * ldo);
        store(out + i * ldo, x);
    }
    *sum = all;
}

/* out[j] = sum over queries i of weights[j][i] rows[i]; DIAGONAL: i >= j alone. */
template <bool DIAGONAL>
NOINLINE void sum_over_queries(const float *weights, const float *rows, int64_t ldr, float *out, int64_t ldo, bool more, Vec *sum) {
    Vec w[B], all = *sum;
    UNROLL(16) for (int i = 0; i < B; i++) w[i] = load(rows + i * ldr);
    UNROLL(16) for (int j = 0; j < B; j++) {
        constexpr int none = 0;
        Vec x = weights[j * B + (DIAGONAL ? j : none)] * w[DIAGONAL ? j : none];
        UNROLL(16) for (int i = (DIAGONAL ? j : none) + 1; i < B; i++) x += weights[j * B + i] * w[i];
        all += x;
        if (more) x += load(out + j * ldo);
        store(out + j * ldo, x);
    }
    *sum = all;
}

/* The softmax over keys of the blocks of scores [J][j][i], J <= I, for one block of queries I; in place. */
NOINLINE void softmax(float *p, int64_t I, float scale) {
    float *diagonal = p + I * B * B;
    Vec top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < I * B; j++) top = larger(top, load(p + j * B) * scale);
    UNROLL(16) for (int j = 0; j < B; j++) {
        Vec x = select(lanes_from(j), load(diagonal + j * B) * scale, -INFINITY);
        store(diagonal + j * B, x);
        top = larger(top, x);
    }
    for (int64_t j = 0; j < I * B; j++) {
        Vec e = exponential(load(p + j * B) * scale - top);
        store(p + j * B, e);
        sum += e;
    }
    UNROLL(4) for (int j = 0; j < B; j++) {
        Vec e = exponential(load(diagonal + j * B) - top);
        store(diagonal + j * B, e);
        sum += e;
    }
    sum = 1.0f / sum;
    for (int64_t j = 0; j < I * B; j++) store(p + j * B, load(p + j * B) * sum);
    UNROLL(16) for (int j = 0; j < B; j++) store(diagonal + j * B, select(lanes_from(j), load(diagonal + j * B) * sum, 0));
}

/* Where the blocks of queries I begin in the (T, T) weights of a head: [I][J][key][query]. */
INLINE int64_t queries_of(int64_t I, int64_t TB) { return I * TB * B * B; }

/* One head forward, of TB blocks of tokens and FB of features; p keeps the weights. */
NOINLINE void head(int64_t TB, int64_t FB, const float *q, int64_t ldq, const float *k, int64_t ldk, const float *v, int64_t ldv,
                   float *y, int64_t ldy, float *p, float scale) {
    Vec sum = 0;
    for (int64_t I = 0; I < TB; I++) {
        Vec queries[MOST_FEATURES];
        float *pi = p + queries_of(I, TB);
        columns_of(q + I * B * ldq, ldq, FB, queries);
        for (int64_t J = 0; J <= I; J++) scores(k + J * B * ldk, ldk, queries, FB, pi + J * B * B);
        softmax(pi, I, scale);
        for (int64_t f = 0; f < FB; f++) {
            float *out = y + I * B * ldy + f * B;
            for (int64_t J = 0; J < I; J++) sum_over_keys<false>(pi + J * B * B, v + J * B * ldv + f * B, ldv, out, ldy, J > 0, &sum);
            sum_over_keys<true>(pi + I * B * B, v + I * B * ldv + f * B, ldv, out, ldy, I > 0, &sum);
        }
    }
}

/* s = scale p (z - sum over keys of p z), for the blocks [J][j][i] of one block of queries; z becomes s. */
NOINLINE void softmax_back(const float *p, float *z, int64_t I, float scale) {
    Vec dot = 0;
    for (int64_t j = 0; j < (I + 1) * B; j++) dot += load(p + j * B) * load(z + j * B);
    for (int64_t j = 0; j < (I + 1) * B; j++) store(z + j * B, load(p + j * B) * (load(z + j * B) - dot) * scale);
}

/* A matrix of tokens and features of one head. */
struct Matrix {
    float *x;
    int64_t ld;
    float *block(int64_t token, int64_t feature) const { return x + token * B * ld + feature * B; }
};

/* The gradients of one head; sums (3, FB) gets their sums over tokens.

   gv = p^T g;  z = g v^T;  s = scale p (z - sum over keys of p z);  gq = s k;  gk = s^T q */
NOINLINE void head_back(int64_t TB, int64_t FB, Matrix q, Matrix k, Matrix v, Matrix g, const float *p, float scale, Matrix gq,
                        Matrix gk, Matrix gv, Vec *sums) {
    Vec *sum_q = sums, *sum_k = sums + FB, *sum_v = sums + 2 * FB;
    for (int64_t f = 0; f < 3 * FB; f++) sums[f] = 0;
    for (int64_t I = 0; I < TB; I++) {
        const float *pi = p + queries_of(I, TB);
        float s[MOST_TOKENS * B];
        Vec grads[MOST_FEATURES];
        columns_of(g.block(I, 0), g.ld, FB, grads);
        for (int64_t J = 0; J <= I; J++) scores(v.block(J, 0), v.ld, grads, FB, s + J * B * B);
        softmax_back(pi, s, I, scale);
        for (int64_t f = 0; f < FB; f++) {
            const float *qi = q.block(I, f), *gi = g.block(I, f);
            for (int64_t J = 0; J < I; J++) {
                const float *pj = pi + J * B * B, *sj = s + J * B * B;
                sum_over_queries<false>(pj, gi, g.ld, gv.block(J, f), gv.ld, true, sum_v + f);
                sum_over_queries<false>(sj, qi, q.ld, gk.block(J, f), gk.ld, true, sum_k + f);
                sum_over_keys<false>(sj, k.block(J, f), k.ld, gq.block(I, f), gq.ld, J > 0, sum_q + f);
            }
            sum_over_queries<true>(pi + I * B * B, gi, g.ld, gv.block(I, f), gv.ld, false, sum_v + f);
            sum_over_queries<true>(s + I * B * B, qi, q.ld, gk.block(I, f), gk.ld, false, sum_k + f);
            sum_over_keys<true>(s + I * B * B, k.block(I, f), k.ld, gq.block(I, f), gq.ld, I > 0, sum_q + f);
        }
    }
}

/* (t, k) at x into (T, K) filled up with zeros, and back. */
static void pack(const float *x, int64_t ld, int64_t t, int64_t k, float *packed) {
    const int64_t T = rounded_up(t), K = rounded_up(k);
    for (int64_t i = 0; i < T; i++)
        each_vector(k, [&](int64_t j, auto lanes) LAMBDA {
            store(packed + i * K + j, i < t ? load(x + i * ld + j, lanes) : Vec(0));
        });
}
static void unpack(const float *packed, int64_t t, int64_t k, float *x, int64_t ld) {
    const int64_t K = rounded_up(k);
    for (int64_t i = 0; i < t; i++)
        each_vector(k, [&](int64_t j, auto lanes) LAMBDA { store(x + i * ld + j, load(packed + i * K + j), lanes); });
}

/* Slots: sequences, t, heads, k, q, ldq, key, ldk, value, ldv, y, ldy, p (sequences, heads, T, T), scale, work (4, T, K). */
KERNEL(attention) {
    const int64_t t = s[1].n, heads = s[2].n, k = s[3].n, ldq = s[5].n, ldk = s[7].n, ldv = s[9].n, ldy = s[11].n;
    const int64_t T = rounded_up(t), K = rounded_up(k), tokens = T / B, features = K / B;
    const float scale = (float)s[13].x;
    float *p = s[12].floats, *work = s[14].floats;
    const bool whole = t == T && k == K;
    for (int64_t b = 0; b < s[0].n; b++)
        for (int64_t h = 0; h < heads; h++, p += T * T) {
            const float *q = s[4].floats + b * t * ldq + h * k, *key = s[6].floats + b * t * ldk + h * k;
            const float *value = s[8].floats + b * t * ldv + h * k;
            float *y = s[10].floats + b * t * ldy + h * k;
            if (whole) {
                if (tokens == 1) {
                    prefetch_rows<1>(p + T * T, W);
                    if (b + 1 < s[0].n) prefetch_rows<1>(y + t * ldy, ldy);
                }
                head(tokens, features, q, ldq, key, ldk, value, ldv, y, ldy, p, scale);
                continue;
            }
            float *qp = work, *kp = work + T * K, *vp = work + 2 * T * K, *yp = work + 3 * T * K;
            pack(q, ldq, t, k, qp), pack(key, ldk, t, k, kp), pack(value, ldv, t, k, vp);
            head(tokens, features, qp, K, kp, K, vp, K, yp, K, p, scale);
            unpack(yp, t, k, y, ldy);
        }
}

/* Slots: sequences, t, heads, k, q, ldq, key, ldk, value, ldv, g, ldg, p, scale, gq, ldgq, gk, ldgk, gv, ldgv, the sums
   of these three over tokens (3, heads k) or null, work (7, T, K). */
KERNEL(attention_back) {
    const int64_t sequences = s[0].n, t = s[1].n, heads = s[2].n, k = s[3].n, d = heads * k;
    const int64_t ldq = s[5].n, ldk = s[7].n, ldv = s[9].n, ldg = s[11].n, ldgq = s[15].n, ldgk = s[17].n, ldgv = s[19].n;
    const int64_t T = rounded_up(t), K = rounded_up(k), tokens = T / B, features = K / B;
    const float scale = (float)s[13].x, *p = s[12].floats;
    float *gb = s[20].floats, *work = s[21].floats;
    const bool whole = t == T && k == K;
    if (gb) memset(gb, 0, 3 * d * sizeof(float));
    for (int64_t b = 0; b < sequences; b++)
        for (int64_t h = 0; h < heads; h++, p += T * T) {
            float *q = s[4].floats + b * t * ldq + h * k, *key = s[6].floats + b * t * ldk + h * k;
            float *value = s[8].floats + b * t * ldv + h * k, *g = s[10].floats + b * t * ldg + h * k;
            float *gq = s[14].floats + b * t * ldgq + h * k, *gk = s[16].floats + b * t * ldgk + h * k;
            float *gv = s[18].floats + b * t * ldgv + h * k;
            Vec sums[3 * MOST_FEATURES / B];
            if (whole) {
                if (tokens == 1) prefetch_rows<0>(p + T * T, W);
                if (tokens == 1 && b + 1 < sequences) {
                    prefetch_rows<0>(q + t * ldq, ldq), prefetch_rows<0>(key + t * ldk, ldk);
                    prefetch_rows<0>(value + t * ldv, ldv), prefetch_rows<0>(g + t * ldg, ldg);
                    prefetch_rows<1>(gq + t * ldgq, ldgq), prefetch_rows<1>(gk + t * ldgk, ldgk);
                    prefetch_rows<1>(gv + t * ldgv, ldgv);
                }
                head_back(tokens, features, {q, ldq}, {key, ldk}, {value, ldv}, {g, ldg}, p, scale, {gq, ldgq}, {gk, ldgk},
                          {gv, ldgv}, sums);
            } else {
                const int64_t size = T * K;
                float *qp = work, *kp = work + size, *vp = work + 2 * size, *gp = work + 3 * size;
                float *gqp = work + 4 * size, *gkp = work + 5 * size, *gvp = work + 6 * size;
                pack(q, ldq, t, k, qp), pack(key, ldk, t, k, kp), pack(value, ldv, t, k, vp), pack(g, ldg, t, k, gp);
                head_back(tokens, features, {qp, K}, {kp, K}, {vp, K}, {gp, K}, p, scale, {gqp, K}, {gkp, K}, {gvp, K}, sums);
                unpack(gqp, t, k, gq, ldgq), unpack(gkp, t, k, gk, ldgk), unpack(gvp, t, k, gv, ldgv);
            }
            if (gb)
                each_vector(k, [&](int64_t j, auto lanes) LAMBDA {
                    for (int part = 0; part < 3; part++) add_to(gb + part * d + h * k + j, sums[part * features + j / B], lanes);
                });
        }
}
