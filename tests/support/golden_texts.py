"""The sentences that users rely on word for word. Tests compare with these, so a rewording changes this file alone.

All other tests assert the facts of a message (file, line, key, value, what to write instead), never its wording.
"""

# config, schemes, data, records, model, training

# storage, execution, runner, commands, terminal

BEGIN = "4 done (1 from other sweeps), 4 to do"
FINISHED = "[1/4] position pre, lr 0.001: learned: loss 1.900, 0:04"
NOTHING_TO_DO = "4 done, nothing to do"
FAILED = "0 done, 3 failed (--retry-failed reruns them), nothing to do"
HEARTBEAT = "0 of 4 finished, 2 running"
STOPPED = "stopped by SIGINT: 1 done, 3 to do; the same command continues"
FULL_OUTPUT = "normexp: cannot write to standard output: No space left on device\n"
BIT_IDENTICAL = "bit-identical over 100 steps"

# analysis, plots, report, claims, texts

CONCLUSION = (
    "5 of 8 finished runs learned; 3 ended on a plateau. "
    "Outcomes depend most on position (runs that learned, all else equal: 1/4 at post, 4/4 at pre). "
    "Best cell: position pre, warmup 200, lr 0.00316, final loss 1.700 (entropy floor 1.500, unigram loss 4.070)."
)
EDGE_CONCLUSION = (
    "The highest trainable lr is smallest for position post (0.0001, not 0.001) and largest for position pre"
    " (0.0119, not 0.015): at least 11 times as high."
    " The cell position glm learns at all values run from lr 0.0001 to 0.1."
    " The cell position b2t learns at no value run from lr 0.0001 to 0.1."
)
