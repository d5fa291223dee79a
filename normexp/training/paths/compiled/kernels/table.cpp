/* The table of a step: its rows, one after the other. */

#include "vector.h"

extern "C" __attribute__((visibility("default"))) void run(const Row *rows, int64_t count) {
    for (int64_t i = 0; i < count; i++) rows[i].kernel(rows[i].slots);
}

#ifdef __x86_64__
/* The same, for profiles: ticks of the processor's clock that each row took. */
extern "C" __attribute__((visibility("default"))) void run_timed(const Row *rows, int64_t count, uint64_t *ticks) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t start = __builtin_ia32_rdtsc();
        rows[i].kernel(rows[i].slots);
        ticks[i] += __builtin_ia32_rdtsc() - start;
    }
}
#endif

/* Floats in a register, and whether it multiplies and adds in one instruction: products pay from AVX2 on. */
extern "C" __attribute__((visibility("default"))) int64_t lanes() {
#ifdef __FMA__
    return LANES;
#else
    return 4;
#endif
}
