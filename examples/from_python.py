"""Run one network and a sweep, and print a table: `python examples/from_python.py`."""

import normexp

record = normexp.run(normexp.RunConfig(depth=20, norm="none", lr=1e-2, steps=100))
print(record.result_word, record.result and record.result.death)

result = normexp.sweep(
    {
        "name": "rates",
        "base": {"depth": 6, "steps": 200},
        "grid": {"position": ["pre", "post"], "lr": [1e-3, 1e-2], "seed": [0, 1]},
    }
)
print(result.conclusion)
runs = normexp.load(result.folder)
print(runs.pivot_table("learned_fraction", "position", "lr").round(2))
