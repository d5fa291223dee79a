"""One run, a sweep and its table, from Python: `python examples/from_python.py`."""

import normexp

alone = normexp.run(normexp.RunConfig(depth=20, norm="none", lr=1e-2, steps=100))
print(alone.result_word, alone.result and alone.result.death)

swept = normexp.sweep(
    {
        "name": "rates",
        "base": {"depth": 6, "steps": 200},
        "grid": {"position": ["pre", "post"], "lr": [1e-3, 1e-2], "seed": [0, 1]},
    }
)
print(swept.conclusion)
runs = normexp.load(swept.folder)
print(runs.pivot_table("learned_fraction", "position", "lr").round(2))
