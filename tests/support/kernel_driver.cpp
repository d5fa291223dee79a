/* Calls every kernel at many sizes, each buffer an allocation of just its size; see test_compiled_memory.py. */

#include "vector.h"
#include <cstdio>
#include <cstdlib>
#include <vector>

#define KERNELS(X) X(product) X(transposed) X(attention) X(attention_back) X(layer_norm) X(layer_norm_back) X(rms_norm) \
    X(rms_norm_back) X(scale_norm) X(scale_norm_back) X(unit_length) X(unit_length_back) X(dyt) X(dyt_back) X(batch_norm) \
    X(batch_norm_back) X(gelu) X(relu) X(times_kept) X(column_sums) X(scaled) X(learned_scaled) X(dot) X(running_mean) \
    X(running_mean_back) X(embed) X(embed_back) X(counted) X(counted_back) X(cross_entropy)
#define DECLARE(name) extern "C" void name(const Slot *);
KERNELS(DECLARE)
extern "C" double sum_of_squares(const float *, int64_t);
extern "C" int64_t adam_coupled(float *, const float *, float *, float *, int64_t, float, float, float, float, float, float, float);
extern "C" int64_t descend(float *, const float *, int64_t, float, float);

/* Each buffer is an allocation of its own, of just its size: the sanitizer sees a step outside. */
static std::vector<float *> all;
static float *buffer(int64_t count) {
    float *x = (float *)malloc(count * sizeof(float) + (count == 0));
    for (int64_t i = 0; i < count; i++) x[i] = (float)((i * 37 + 11) % 101) / 50 - 1;
    all.push_back(x);
    return x;
}
struct Call {
    Slot slots[24] = {};
    int at = 0;
    Call &n(int64_t v) { slots[at++].n = v; return *this; }
    Call &x(double v) { slots[at++].x = v; return *this; }
    Call &b(int64_t count) { slots[at++].floats = buffer(count); return *this; }
    Call &p(void *v) { slots[at++].floats = (float *)v; return *this; }
    void operator()(void (*kernel)(const Slot *)) { kernel(slots); for (float *f : all) free(f); all.clear(); }
};

int main() {
    const int64_t sizes[] = {1, 2, 5, 15, 16, 17, 31, 32, 33, 48, 49, 64, 70};
    for (int64_t d : sizes) for (int64_t n : {1, 2, 7, 12, 13, 16, 23, 40}) {
        for (int64_t k : {1, 9, 16, 130}) for (int by_rows = 0; by_rows < 2; by_rows++)
            Call().n(n).b(n * d).b(n * k).b(k * d).b(d).b(n * d).n(d).n(k).n(d).n(d).n(by_rows ? k : 1).n(by_rows ? 1 : n)(product);
        Call().b(n * d).b(n * d).n(n).n(d)(transposed);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(d).b(n).b(n).x(1e-5).x(d)(layer_norm);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(n).b(n).b(n * d).b(n * d).n(d).b(d).b(d).x(d)(layer_norm_back);
        Call().n(n).n(2).n(d).b(n * 2 * d).n(2 * d).b(n * 2 * d).n(2 * d).b(d).p(0).p(0).b(2 * n).x(1e-5).x(d)(rms_norm);
        Call().n(n).n(2).n(d).b(n * 2 * d).n(2 * d).b(n * 2 * d).n(2 * d).b(d).p(0).b(2 * n).p(0).b(n * 2 * d).n(2 * d).b(d).p(0).x(d)(rms_norm_back);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).b(1).p(0).p(0).b(n).x(1e-5).x(1)(scale_norm);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).b(1).p(0).b(n).b(n * d).b(n * d).n(d).b(1).p(0).x(1)(scale_norm_back);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).p(0).p(0).p(0).b(n).x(1e-5).x(1)(unit_length);
        Call().n(n).n(1).n(d).b(n * d).n(d).b(n * d).n(d).p(0).p(0).b(n).p(0).b(n * d).n(d).p(0).p(0).x(1)(unit_length_back);
        Call().n(n).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(d).b(1).b(n * d)(dyt);
        Call().n(n).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(1).b(n * d).b(n * d).b(n * d).n(d).b(d).b(d).b(1)(dyt_back);
        int64_t counted_batches = 0, words[64], first = 0;
        for (int64_t i = 0; i < 64; i++) words[i] = i % d;
        Call().n(n).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(d).b(d).b(d).x(1e-5).b(d).b(d).x(0.1).p(&counted_batches)(batch_norm);
        Call().n(n).n(d).b(n * d).n(d).b(n * d).n(d).b(d).b(d).b(d).b(n * d).b(n * d).n(d).b(d).b(d)(batch_norm_back);
        Call().n(n * d).b(n * d).b(n * d).b(n * d)(gelu);
        Call().n(n * d).b(n * d).b(n * d).b(n * d)(relu);
        Call().n(n).n(d).b(n * d).b(n * d).b(n * d).b(d)(times_kept);
        Call().n(n).n(d).b(n * d).b(d)(column_sums);
        Call().n(n * d).b(n * d).b(n * d).b(n * d).x(0.5)(scaled);
        Call().n(n * d).b(n * d).p(0).b(n * d).b(1)(learned_scaled);
        Call().n(n * d).b(n * d).b(n * d).b(1)(dot);
        Call().n(2).n(n).n(d).b(2 * n * d).b(2 * n * d)(running_mean);
        Call().n(2).n(n).n(d).b(2 * n * d).b(2 * n * d).b(2 * n * d)(running_mean_back);
        Call().n(n).n(n).n(d).p(words).b(d * d).b(n * d).b(n * d)(embed);
        Call().n(n).n(n).n(d).p(words).b(n * d).b(d * d).n(d * d).b(n * d).n(n * d)(embed_back);
        for (first = 0; first < 2 && first < n; first++) {
            Call().n(2).n(n).n(d).n(first).b(2 * n * d).b(2 * (n - first) * d)(counted);
            Call().n(2).n(n).n(d).n(first).b(2 * (n - first) * d).b(2 * n * d)(counted_back);
        }
        double loss = 0;
        Call().n(n).n(d).b(n * d).p(words).b(n * d).p(&loss)(cross_entropy);
        float *x = buffer(n * d), *g = buffer(n * d), *m = buffer(n * d), *u = buffer(n * d);
        for (int64_t i = 0; i < n * d; i++) u[i] *= u[i];
        adam_coupled(x, g, m, u, n * d, 1e-3f, 0.1f, 0.999f, 0.001f, 0.1f, 1e-8f, 0.0f);
        descend(x, g, n * d, 1e-3f, 0.1f);
        if (!(sum_of_squares(x, n * d) >= 0)) return 1;
        for (float *f : all) free(f);
        all.clear();
    }
    for (int64_t t : {1, 3, 16, 17, 32, 33, 64}) for (int64_t k : {1, 4, 16, 20, 32, 128}) for (int64_t h : {1, 3}) {
        const int64_t d = h * k, n = 2 * t, T = (t + 15) / 16 * 16, K = (k + 15) / 16 * 16;
        float *q = buffer(n * d), *key = buffer(n * d), *v = buffer(n * d), *p = buffer(2 * h * T * T);
        Call().n(2).n(t).n(h).n(k).p(q).n(d).p(key).n(d).p(v).n(d).b(n * d).n(d).p(p).x(0.3).b(4 * T * K)(attention);
        q = buffer(n * d), key = buffer(n * d), v = buffer(n * d), p = buffer(2 * h * T * T);
        Call().n(2).n(t).n(h).n(k).p(q).n(d).p(key).n(d).p(v).n(d).b(n * d).n(d).p(p).x(0.3).b(n * d).n(d).b(n * d).n(d).b(n * d).n(d)
            .b(3 * d).b(7 * T * K)(attention_back);
    }
    puts("done");
}
